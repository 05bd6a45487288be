"""Algorithms as rows: select x advantage x objective x aggregation, and the correction between sampler and trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from patchgrad.contracts import Aggregate, Correction, Estimator, Objective, RewardFunction, Score
from patchgrad.grading.rewards import TurnPenalty, Unsubmitted, Weighted
from patchgrad.learning.advantages import (
    Anchored,
    Branched,
    FunctionEstimator,
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
from patchgrad.learning.objectives.cispo import Cispo, CispoTwoSided
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.corrections import MaskGeometric, MaskSequence, MaskToken, Together, TruncateSequence, TruncateToken
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.objectives.functions import FunctionObjective
from patchgrad.learning.objectives.gspo import Gspo
from patchgrad.learning.objectives.kl_penalty import WithKlPenalty
from patchgrad.learning.selection import contrast, solved_only, sound
from patchgrad.recipes.loss import ImportanceCorrection, KlPenalty
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.rows import Aggregation, Baseline, Row
from patchgrad.recipes.stage import LengthPenalty, Stage
from patchgrad.runs.components.construct import construct
from patchgrad.runs.components.registry import BY_NAME, Registry
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


def algorithm(stage: Stage, reference: Score | None = None, registry: Registry = BY_NAME) -> Algorithm:
    """The row that a stage names, with what the stage sets of its own (`Stage.row`).

    Minibatches hold whole groups, so that what adds up to zero in a group does so in every step; of shuffled attempts a small one can
    hold failures alone. Whether that is what matters was not isolated (docs/studies/laptop.md).
    """
    row = stage.row
    correction = stage.loss.correction
    return Algorithm(
        select=sound if row.filter_on == "nothing" else partial(contrast, on=row.filter_on),
        estimator=_estimator(row, stage.advantage.discount, registry),
        objective=_objective(row, stage.loss.kl_penalty, registry),
        failures=row.failures.policy,
        confident_above=row.confident_above,
        penalty=row.penalty,
        whole_groups=True,
        rescale=whitened if row.whiten else as_they_are,
        aggregate=_aggregate(row.aggregate, stage.limits.context),
        old=row.old,
        correction=None if correction.none else _correction(correction),
        reference=reference,
    )


BASELINES: Mapping[Baseline, Callable[..., Estimator]] = {"group": GroupNormalised, "tokens": LengthWeighted, "turns": Branched}


ESTIMATORS: Mapping[str, Callable[..., Estimator]] = {
    "mean": MeanOnly,
    "leave-one-out": LeaveOneOut,
    "mean-scaled": MeanScaled,
    "returns": Returns,
}


def _reinforce() -> Objective:
    return cross_entropy


OBJECTIVES: Mapping[str, Callable[..., Objective]] = {
    "reinforce": _reinforce,
    "clip": Clipped,
    "gspo": Gspo,
    "cispo": Cispo,
    "cispo-two-sided": CispoTwoSided,
}


def _estimator(row: Row, discount: float, registry: Registry) -> Estimator:
    part, key, estimator = row.estimator, "advantage.estimator", BASELINES[row.baseline]
    if part.name == "normalised" or part.name in ESTIMATORS:
        facts = {"baseline_offset": row.baseline_offset}
        made: Estimator = construct(key, ESTIMATORS.get(part.name, estimator), part.options, facts)
    else:
        made = FunctionEstimator(registry.function("estimators", part, key))
    return Anchored(made, row.step_weight, discount) if row.step_weight else made


def _objective(row: Row, kl_penalty: KlPenalty, registry: Registry) -> Objective:
    part, key = row.objective, "loss.objective"
    named = (("low", row.clip_low), ("high", row.clip_high), ("dual", row.dual))
    bounds = {name: value for name, value in named if value is not None}
    if part.name in OBJECTIVES:
        made: Objective = construct(key, OBJECTIVES[part.name], part.options, bounds)
    else:
        made = FunctionObjective(registry.function("objectives", part, key))
    return WithKlPenalty(made, kl_penalty.weight, kl_penalty.estimator, kl_penalty.to) if kl_penalty.weight else made


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


def with_length_penalty(reward: RewardFunction, penalty: LengthPenalty, turns: int) -> RewardFunction:
    """The reward less what long attempts pay, PAPER sections 6.1 and 6.2; the weight is 1 there. Less what those pay that do not submit."""
    costs: list[tuple[RewardFunction, float]] = [
        (TurnPenalty(penalty.length_threshold, turns), penalty.length_weight),
        (Unsubmitted(), penalty.unsubmitted),
    ]
    paid = [(cost, weight) for cost, weight in costs if weight]
    return Weighted((reward, *(cost for cost, _ in paid)), (1.0, *(weight for _, weight in paid))) if paid else reward
