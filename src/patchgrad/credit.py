"""Groups -> samples: which attempts teach (`Select`), how much (`Estimator`), and which of their turns (`FailurePolicy`).

    rl  = assign(contrast(groups), GroupNormalised(), KEEP_ALL)
    rft = assign(solved_only(groups, cap_per_task=4), Ones(), MASK_FORMAT_ERRORS)

What infrastructure broke is dropped before anything is averaged: it is no zero. Every attempt's chain of turns is verified. Where the
sampler and the trainer disagree, `corrected` says what a token weighs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from patchgrad.certificates import MEANINGS, flaw
from patchgrad.contracts import Correction, Estimator, Rescale
from patchgrad.errors import CertificateError, ConfigError
from patchgrad.values import Bools, Floats, Group, Malformed, Rollout, Sample, Trajectory, digest, floats

Treatment = Literal["keep", "mask", "withhold", "penalise", "drop"]
FailurePolicy = Mapping[str, Treatment]
"""What becomes of turns by how they failed, in fine-tuning and RL alike; a kind that is not named is kept.

`mask`: the turn is context, and not trained. `withhold`: never rewarded, its advantage is at most 0. `penalise`: at most -`PENALTY`,
whatever became of its attempt. `drop`: its attempt is not trained at all, and still counts in its group. Where two are said of a turn,
as it failed in one way and its attempt in another, it is the one that leaves less of it (`STRICTER`).
"""

STRICTER: tuple[Treatment, ...] = ("keep", "withhold", "penalise", "mask", "drop")

PENALTY = 0.5

KINDS = frozenset(
    {
        *("no command", "truncated", "several commands", "unknown tool", "bad arguments", "looping"),
        *("timeout", "died", "out of memory", "infrastructure"),
        "overlong",
    }
)
"""How a turn can have failed; `truncated` is one that ran out of tokens before its command ended, and `overlong` are all turns of an
attempt that ran into a limit. Turns that a fork replays are always masked.
"""

LIMITS = ("turn limit", "context limit", "time limit")

KEEP_ALL: FailurePolicy = MappingProxyType({})
"""RL: a turn that failed stays an example of what not to do, as does an attempt that ran into a limit (sections 6.4, 6.5)."""

MASK_FORMAT_ERRORS: FailurePolicy = MappingProxyType(
    {"no command": "mask", "truncated": "mask", "several commands": "mask", "unknown tool": "mask", "bad arguments": "mask"}
)
"""Imitation: a turn that the environment could not read is context, never imitated (section 5)."""


# --- select --------------------------------------------------------------------------------------


def sound(groups: Sequence[Group]) -> list[Group]:
    """The groups without attempts that infrastructure broke or that have no turn; a group without attempts is gone."""
    kept = (Group(tuple(rollout for rollout in group.rollouts if _sound(rollout))) for group in groups)
    return [group for group in kept if group.rollouts]


def contrast(groups: Sequence[Group], on: Literal["outcome", "reward"] = "outcome") -> list[Group]:
    """The groups whose attempts differ: DAPO's 0 < solved < G, or, `on="reward"`, any two rewards that differ.

    The paper says that samples of zero advantage are dropped; only the reading `outcome` fits its 2 to 8 steps (section 6.3).
    """
    if on == "outcome":
        return [group for group in sound(groups) if 0 < group.solve_rate < 1]
    return [group for group in sound(groups) if len({rollout.reward.value for rollout in group.rollouts}) > 1]


def solved_only(groups: Sequence[Group], cap_per_task: int | None = None, dedupe: bool = True) -> list[Group]:
    """The solved attempts, at most `cap_per_task` for each task, in order; `dedupe` keeps one of those that acted the same.

    The cap counts over all groups of a task, so that easy tasks do not fill the set.
    """
    if cap_per_task is not None and cap_per_task < 1:
        raise ConfigError(f"cap_per_task is {cap_per_task}; it must be at least 1, or None for no cap.")
    taken: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    chosen: list[Group] = []
    for group in sound(groups):
        kept: list[Rollout] = []
        for rollout in group.rollouts:
            task, actions = rollout.task.digest(), _actions(rollout.trajectory)
            if not rollout.solved or taken[task] == cap_per_task or (dedupe and (task, actions) in seen):
                continue
            taken[task] += 1
            seen.add((task, actions))
            kept.append(rollout)
        if kept:
            chosen.append(Group(tuple(kept)))
    return chosen


def _sound(rollout: Rollout) -> bool:
    return not rollout.broken and bool(rollout.trajectory.turns)


def _actions(trajectory: Trajectory) -> str:
    return digest(*(turn.action.token_ids.tobytes() for turn in trajectory.turns))


# --- assign --------------------------------------------------------------------------------------


def as_they_are(advantages: Sequence[Floats], kept: Sequence[Bools]) -> list[Floats]:
    """Each group's advantages stand by themselves."""
    return list(advantages)


def assign(
    groups: Sequence[Group],
    estimator: Estimator,
    failures: FailurePolicy = KEEP_ALL,
    rescale: Rescale = as_they_are,
    certain: float = 1.0,
) -> list[Sample]:
    """One sample for each segment that has something to teach: a kept token with an advantage other than zero.

    `rescale` sees the advantages of all groups at once, before anything is withheld or left out. At last no token is blamed that the policy
    was `certain` of: what a failed attempt did wrong are its choices. Most of its tokens are form, which stands in every attempt, sampled
    with a probability near 1, and blame for it adds up until a fence or a fixed option breaks. With 0.9, advantages of -1 on tokens of
    probabilities 0.99 and 0.5 become 0 and -1; advantages of 1 stay, and hold fast what is certain. The 80/20 rule (arXiv 2506.01939)
    trains the least certain fifth of the tokens alone.

    Raises `CertificateError` for a trajectory whose turns are not the chain that they claim to be.
    """
    return [sample for unit in by_group(groups, estimator, failures, rescale, certain) for sample in unit]


def by_group(
    groups: Sequence[Group],
    estimator: Estimator,
    failures: FailurePolicy = KEEP_ALL,
    rescale: Rescale = as_they_are,
    certain: float = 1.0,
) -> list[list[Sample]]:
    """The samples of `assign`, a list for each group; one that teaches nothing has an empty list."""
    unknown = set(failures) - KINDS
    if unknown:
        raise ConfigError(f"No turn fails as {sorted(unknown)[0]!r}; the kinds are {', '.join(sorted(KINDS))}.")
    whole_groups = [sound([whole]) for whole in groups]
    for rollout in (rollout for found in whole_groups for group in found for rollout in group.rollouts):
        if (fault := flaw(rollout)) is not None:
            raise CertificateError(f"{rollout.trajectory.id} cannot be trained on: {MEANINGS[fault]}.", fault)
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
        units[one.place] += _split(one.trajectory, one.group, _earned(one, advantages, certain), keep)
    return units


def _earned(one: _Rated, advantages: Floats, certain: float) -> Floats:
    """What is left of advantages where turns failed, and where there was no choice."""
    earned = np.where(one.treated == "withhold", np.minimum(advantages, 0.0), advantages)
    earned = np.where(one.treated == "penalise", np.minimum(advantages, -PENALTY), earned)
    if certain < 1:
        sampled = np.concatenate([turn.action.logprobs for turn in one.trajectory.turns])
        earned = np.where((earned < 0) & (sampled > math.log(certain)), 0.0, earned)
    return floats(earned)


@dataclass(frozen=True, slots=True)
class _Rated:
    """An attempt on its way to samples; `place` is that of its group, `treated` its turns' treatment at each action token."""

    place: int
    group: str
    trajectory: Trajectory
    advantages: Floats
    treated: npt.NDArray[np.str_]


def kept(trajectory: Trajectory, failures: FailurePolicy = KEEP_ALL) -> Bools:
    """Which of an attempt's action tokens are trained: all but those of turns that the policy of failures masks."""
    trained: Bools = _treatments(trajectory, failures) != "mask"
    return trained


def _treatments(trajectory: Trajectory, failures: FailurePolicy) -> npt.NDArray[np.str_]:
    least = failures.get("overlong", "keep") if trajectory.stop in LIMITS else "keep"
    treatments: list[Treatment] = [max(least, failures.get(kind or "", "keep"), key=STRICTER.index) for kind in kinds(trajectory)]
    if "drop" in treatments:
        treatments = ["mask"] * len(treatments)
    treatments[: trajectory.replayed] = ["mask"] * trajectory.replayed
    return np.repeat(treatments, [len(turn.action.token_ids) for turn in trajectory.turns])


def _split(trajectory: Trajectory, group: str, earned: npt.NDArray[Any], keep: Bools) -> list[Sample]:
    sizes = [sum(len(turn.action.token_ids) for turn in segment.turns) for segment in trajectory.segments]
    cuts = np.cumsum(sizes)[:-1]
    samples: list[Sample] = []
    for segment, part, kept in zip(trajectory.segments, np.split(earned, cuts), np.split(keep, cuts), strict=True):
        if (kept & (part != 0)).any():
            kept.setflags(write=False)
            samples.append(Sample.of(segment, floats(part), kept, trajectory.id, group))
    return samples


def corrected(samples: Sequence[Sample], correction: Correction) -> tuple[list[Sample], dict[str, float]]:
    """The samples weighed by what a correction says of old / sampled, and the shares of tokens that it `truncated` and `masked`.

    A token whose factor is 0 is no longer kept: it counts neither in a sum of costs nor among the tokens that the sum is divided by. A
    sample with no trained token left is gone. Factors of 0.5 and 0 on two tokens of weight 1 leave one of weight 0.5; half is masked.
    """
    said = [correction(floats((sample.old - sample.segment.logprobs())[sample.trained])) for sample in samples]
    left = [_weighed(sample, factors) for sample, (factors, _) in zip(samples, said, strict=True) if factors.any()]
    tokens = max(1, sum(len(factors) for factors, _ in said))
    truncated = sum(int((bounded & (factors > 0)).sum()) for factors, bounded in said)
    masked = sum(int((factors == 0).sum()) for factors, _ in said)
    return left, {"truncated": truncated / tokens, "masked": masked / tokens}


def _weighed(sample: Sample, factors: Floats) -> Sample:
    weights, keep, trained = sample.weights.copy(), sample.keep.copy(), sample.trained
    weights[trained], keep[trained] = weights[trained] * factors, factors > 0
    keep.setflags(write=False)
    return replace(sample, weights=floats(weights), keep=keep)


def kinds(trajectory: Trajectory) -> list[str | None]:
    """How each turn failed, `None` where it did not: `replayed`, else its format error, else its observation's failure, else `looping`.

    A turn loops if an earlier one of its attempt made the same call in the same state, which is the address of the files and where the
    agent stood: a third `replace " <" " <="` that tests refuse and `git restore` undoes tells nothing that the first had not told.
    """
    done: set[tuple[object, ...]] = set()
    found: list[str | None] = []
    before: object = None
    for turn in trajectory.turns:
        failure: str | None = turn.call.kind if isinstance(turn.call, Malformed) else turn.observation.failure
        if failure == "no command" and turn.action.finish == "length":
            failure = "truncated"
        step = (before, turn.call)
        again = step in done and failure in (None, "unknown tool")  # the shell has answered those, and would answer the same
        found.append("looping" if again else failure)
        done.add(step)
        before = (turn.state, turn.observation.place)
    return [*("replayed" for _ in range(trajectory.replayed)), *found[trajectory.replayed :]]


def failed(trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """How many turns failed in each way, the most frequent first: `{"looping": 12, "timeout": 1}`. What forks replay is not counted."""
    found = Counter(kind for trajectory in trajectories for kind in kinds(trajectory) if kind not in (None, "replayed"))
    return {str(kind): count for kind, count in found.most_common()}
