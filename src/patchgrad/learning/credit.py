"""Groups -> samples: which attempts teach (`Select`), how much (`Estimator`), and which of their turns (`FailurePolicy`).

    rl  = assign(contrast(groups), GroupNormalised(), KEEP_ALL)
    rft = assign(solved_only(groups, cap_per_task=4), Ones(), MASK_FORMAT_ERRORS)

What infrastructure broke is dropped before anything is averaged: it is no zero. Every attempt's chain of turns is verified. Where the
sampler and the trainer disagree, `weighted` says what a token weighs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from patchgrad.contracts import Correction, Estimator, Rescale
from patchgrad.errors import ConfigError, ProvenanceError
from patchgrad.learning.failures import KEEP_ALL, KINDS, PENALTY, FailurePolicy, _treatments
from patchgrad.learning.provenance import MEANINGS, violation
from patchgrad.learning.selection import sound
from patchgrad.values import Bools, Floats, Group, Sample, ScoredSample, Trajectory, WeightedSample, floats

# --- select --------------------------------------------------------------------------------------


# --- assign --------------------------------------------------------------------------------------


def as_they_are(advantages: Sequence[Floats], kept: Sequence[Bools]) -> list[Floats]:
    """Each group's advantages stand by themselves."""
    return list(advantages)


def assign(
    groups: Sequence[Group],
    estimator: Estimator,
    failures: FailurePolicy = KEEP_ALL,
    rescale: Rescale = as_they_are,
    confident_above: float = 1.0,
    penalty: float = PENALTY,
) -> list[Sample]:
    """One sample for each segment that has something to teach: a kept token with an advantage other than zero.

    `rescale` sees the advantages of all groups at once, before anything is withheld or left out. A turn that is penalised is worth at most
    minus the `penalty`. At last no token is blamed that the
    policy was `confident_above` of: what a failed attempt did wrong are its choices. Most of its tokens are form, which stands in every
    attempt, sampled with a probability near 1, and blame for it adds up until a fence or a fixed option breaks. With 0.9, advantages of -1
    on tokens of probabilities 0.99 and 0.5 become 0 and -1; advantages of 1 stay, and hold fast what is confident. The 80/20 rule (arXiv
    2506.01939) trains the least confident fifth of the tokens alone.

    Raises `ProvenanceError` for a trajectory whose turns are not the chain that they claim to be.
    """
    return [sample for unit in by_group(groups, estimator, failures, rescale, confident_above, penalty) for sample in unit]


def by_group(
    groups: Sequence[Group],
    estimator: Estimator,
    failures: FailurePolicy = KEEP_ALL,
    rescale: Rescale = as_they_are,
    confident_above: float = 1.0,
    penalty: float = PENALTY,
) -> list[list[Sample]]:
    """The samples of `assign`, a list for each group; one that teaches nothing has an empty list."""
    unknown = set(failures) - KINDS
    if unknown:
        raise ConfigError(f"No turn fails as {sorted(unknown)[0]!r}; the kinds are {', '.join(sorted(KINDS))}.")
    whole_groups = [sound([whole]) for whole in groups]
    for rollout in (rollout for found in whole_groups for group in found for rollout in group.rollouts):
        if (fault := violation(rollout)) is not None:
            raise ProvenanceError(f"{rollout.trajectory.id} cannot be trained on: {MEANINGS[fault]}.", fault)
    rated = [
        _Rated(place, group.rollouts[0].trajectory.id, rollout.trajectory, advantages, _treatments(rollout.trajectory, failures))
        for place, found in enumerate(whole_groups)
        for group in found
        for rollout, advantages in zip(group.rollouts, estimator(group), strict=True)
    ]
    for one in rated:
        if len(one.advantages) != len(one.treated):
            given, needed = len(one.advantages), len(one.treated)
            raise ConfigError(f"The estimator gave {given} advantages for the {needed} action tokens of {one.trajectory.id}.")
    trained = [one.treated != "mask" for one in rated]
    units: list[list[Sample]] = [[] for _ in groups]
    for one, advantages, keep in zip(rated, rescale([one.advantages for one in rated], trained), trained, strict=True):
        units[one.place] += _split(one.trajectory, one.group, _earned(one, advantages, confident_above, penalty), keep)
    return units


def _earned(one: _Rated, advantages: Floats, confident_above: float, penalty: float) -> Floats:
    """What is left of advantages where turns failed, and where there was no choice."""
    earned = np.where(one.treated == "withhold", np.minimum(advantages, 0.0), advantages)
    earned = np.where(one.treated == "penalise", np.minimum(advantages, -penalty), earned)
    if confident_above < 1:
        sampled = np.concatenate([turn.action.logprobs for turn in one.trajectory.turns])
        earned = np.where((earned < 0) & (sampled > math.log(confident_above)), 0.0, earned)
    return floats(earned)


@dataclass(frozen=True, slots=True)
class _Rated:
    """An attempt on its way to samples; `place` is that of its group, `treated` its turns' treatment at each action token."""

    place: int
    group: str
    trajectory: Trajectory
    advantages: Floats
    treated: npt.NDArray[np.str_]


def _split(trajectory: Trajectory, group: str, earned: npt.NDArray[Any], keep: Bools) -> list[Sample]:
    sizes = [sum(len(turn.action.token_ids) for turn in segment.turns) for segment in trajectory.segments]
    cuts = np.cumsum(sizes)[:-1]
    samples: list[Sample] = []
    for segment, part, kept in zip(trajectory.segments, np.split(earned, cuts), np.split(keep, cuts), strict=True):
        if (kept & (part != 0)).any():
            kept.setflags(write=False)
            samples.append(Sample(segment, floats(part), kept, trajectory.id, group))
    return samples


def weighted(samples: Sequence[ScoredSample], correction: Correction) -> tuple[list[WeightedSample], dict[str, float]]:
    """The samples weighed by what a correction says of old / sampled, and the shares of tokens that it `truncated` and `masked`.

    A token whose factor is 0 is no longer trained: it counts neither in a sum of costs nor among the tokens that the sum is divided by. A
    sample with no trained token left is gone. Factors of 0.5 and 0 on two tokens leave weights of 0.5 and 0; half is masked.
    """
    said = [correction(floats((one.old - one.sample.segment.logprobs())[one.sample.trained])) for one in samples]
    left = [_weighted(sample, factors) for sample, (factors, _) in zip(samples, said, strict=True) if factors.any()]
    tokens = max(1, sum(len(factors) for factors, _ in said))
    truncated = sum(int((bounded & (factors > 0)).sum()) for factors, bounded in said)
    masked = sum(int((factors == 0).sum()) for factors, _ in said)
    return left, {"truncated": truncated / tokens, "masked": masked / tokens}


def _weighted(scored: ScoredSample, factors: Floats) -> WeightedSample:
    weights, trained = np.ones(len(scored.old)), scored.sample.trained.copy()
    at = scored.sample.trained
    weights[at], trained[at] = factors, factors > 0
    trained.setflags(write=False)
    return WeightedSample(scored, floats(weights), trained)
