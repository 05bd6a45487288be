"""Algorithms as rows: select x advantage x objective x aggregation, and the correction between sampler and trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from patchgrad.contracts import Aggregate, Correction, Estimator, Objective, RewardFunction, Score
from patchgrad.grading.rewards import Resolved, TurnPenalty, Weighted
from patchgrad.learning.advantages import (
    Anchored,
    Branched,
    GroupNormalised,
    LeaveOneOut,
    LengthWeighted,
    MeanOnly,
    MeanScaled,
    Ones,
    Returns,
    whitened,
)
from patchgrad.learning.aggregation import (
    group_mean_token_mean,
    seq_mean_token_mean,
    seq_mean_token_sum,
    seq_mean_token_sum_norm,
    token_mean,
)
from patchgrad.learning.algorithm import Algorithm
from patchgrad.learning.credit import as_they_are
from patchgrad.learning.objectives.cispo import cispo, cispo_two_sided
from patchgrad.learning.objectives.clipped import clipped
from patchgrad.learning.objectives.corrections import MaskGeometric, MaskSequence, MaskToken, Together, TruncateSequence, TruncateToken
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.objectives.gspo import gspo
from patchgrad.learning.objectives.kl_penalty import with_kl_penalty
from patchgrad.learning.selection import contrast, solved_only, sound
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.rows import ROWS, Aggregation, ImportanceCorrection, clip
from patchgrad.recipes.stage import Stage
from patchgrad.values import Group, Ids, Segment, Task, Trajectory, Turn


def imitation(rft: Rft, plain: Callable[[Task], Ids] | None = None) -> Algorithm:
    """Rejection fine-tuning (arXiv 2508.03501, section 4.2): solved attempts, without turns that failed as `rft.failures` says.

    With `plain`, what is imitated follows that prompt, and not the one with a demonstration that the attempts were collected by.
    """

    def select(groups: Sequence[Group]) -> list[Group]:
        chosen = solved_only(groups, rft.cap, rft.dedupe)
        return [reprompted(group, plain(group.task)) for group in chosen] if plain else chosen

    return Algorithm(select, Ones(), cross_entropy, rft.failures.policy)


def reprompted(group: Group, context: Ids) -> Group:
    """The same attempts, as if they had begun after `context` and not after what they were prompted with: a new chain of turns.

    Their log-probabilities are those of the other beginning, so they can be imitated and nothing else. The paper collects with a
    demonstration in the prompt and imitates without it (arXiv 2508.03501, section 4.2).
    """
    return Group(tuple(replace(rollout, trajectory=_begun(rollout.trajectory, context)) for rollout in group.rollouts))


def _begun(trajectory: Trajectory, context: Ids) -> Trajectory:
    turns: list[Turn] = []
    for turn in trajectory.turns:
        new = replace(turn, action=replace(turn.action, origin=None))  # it was not sampled after this
        turns.append(replace(new, parent=turns[-1].address) if turns else replace(new, context=context))
    rest = iter(turns)
    segments = tuple(Segment(tuple(next(rest) for _ in segment.turns)) for segment in trajectory.segments)
    return replace(trajectory, segments=segments)


def algorithm(stage: Stage, reference: Score | None = None) -> Algorithm:
    """The row that a stage names, with what the stage sets; `dapo` is the paper's modified DAPO (section 4.3).

    Minibatches hold whole groups, so that what adds up to zero in a group does so in every step; of shuffled attempts a small one can
    hold failures alone. Whether that is what matters was not isolated (docs/studies/laptop.md).
    """
    row = ROWS[stage.algorithm]
    return Algorithm(
        select=partial(contrast, on=stage.filter_on) if row.select == "contrast" else sound,
        estimator=_estimator(stage),
        objective=_objective(stage),
        failures=stage.failures.policy,
        confident_above=stage.confident_above,
        whole_groups=True,
        rescale=whitened if row.whiten else as_they_are,
        aggregate=_aggregate(stage.aggregate or row.aggregate, stage.context),
        old=stage.old,
        correction=None if stage.correction.none else _correction(stage.correction),
        reference=reference,
    )


BASELINES: Mapping[str, Callable[..., Estimator]] = {"group": GroupNormalised, "tokens": LengthWeighted, "turns": Branched}


def _estimator(stage: Stage) -> Estimator:
    rows: Mapping[str, Callable[[], Estimator]] = {
        "normalised": lambda: BASELINES[stage.baseline](baseline_offset=stage.baseline_offset),
        "mean": MeanOnly,
        "leave-one-out": LeaveOneOut,
        "mean-scaled": MeanScaled,
        "returns": Returns,
    }
    estimator = rows[ROWS[stage.algorithm].estimator]()
    if stage.step_weight:
        estimator = Anchored(estimator, stage.step_weight, stage.discount)
    return estimator


def _objective(stage: Stage) -> Objective:
    row, (low, high) = ROWS[stage.algorithm], clip(stage.algorithm, stage.clip_low, stage.clip_high)
    bounds = {name: value for name, value in (("low", low), ("high", high), ("dual", row.dual)) if value is not None}
    rows: Mapping[str, Callable[..., Objective]] = {
        "reinforce": lambda: cross_entropy,
        "clip": clipped,
        "gspo": gspo,
        "cispo": cispo,
        "cispo-two-sided": cispo_two_sided,
    }
    objective = rows[row.objective](**bounds)
    kl_penalty = stage.kl_penalty
    return with_kl_penalty(objective, kl_penalty.weight, kl_penalty.estimator, kl_penalty.to) if kl_penalty.weight else objective


def _aggregate(name: Aggregation, longest: int) -> Aggregate:
    """The constant of `seq-mean-token-sum-norm` is the stage's context, which no sequence is longer than."""
    return {
        "token-mean": token_mean,
        "seq-mean-token-mean": seq_mean_token_mean,
        "seq-mean-token-sum": seq_mean_token_sum,
        "seq-mean-token-sum-norm": seq_mean_token_sum_norm(longest),
        "group-mean-token-mean": group_mean_token_mean,
    }[name]


def _correction(correction: ImportanceCorrection) -> Correction:
    parts: list[Correction] = []
    if correction.truncate_token is not None:
        parts.append(TruncateToken(correction.truncate_token))
    if correction.truncate_sequence is not None:
        parts.append(TruncateSequence(correction.truncate_sequence))
    if correction.mask_token is not None:
        parts.append(MaskToken(*correction.mask_token))
    if correction.mask_sequence is not None:
        parts.append(MaskSequence(*correction.mask_sequence))
    if correction.mask_geometric is not None:
        parts.append(MaskGeometric(*correction.mask_geometric))
    return Together(tuple(parts))


def shaped(length_threshold: int, turns: int, weight: float) -> RewardFunction:
    """The tests decide and long attempts pay, PAPER sections 6.1 and 6.2; `weight` is 1 there."""
    return Weighted((Resolved(), TurnPenalty(length_threshold, turns)), (1.0, weight))
