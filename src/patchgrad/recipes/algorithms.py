"""Algorithms as rows: select x advantage x objective."""

from __future__ import annotations

from functools import partial

from patchgrad.advantages import Anchored, Decisions, GroupNormalised, LengthWeighted, Ones
from patchgrad.contracts import Estimator, RewardFunction
from patchgrad.credit import KEEP_ALL, MASK_FORMAT_ERRORS, WITHHOLD_FROM_WASTE, contrast, solved_only
from patchgrad.learning import Algorithm
from patchgrad.objectives.clipped import clipped
from patchgrad.objectives.cross_entropy import cross_entropy
from patchgrad.recipes.recipe import Stage
from patchgrad.rewards import Resolved, TurnPenalty, Weighted


def imitation(cap: int) -> Algorithm:
    """Rejection fine-tuning (arXiv 2508.03501, section 4.2): solved attempts, at most `cap` a task, turns with format errors masked."""
    return Algorithm(partial(solved_only, cap_per_task=cap), Ones(), cross_entropy, MASK_FORMAT_ERRORS)


def dapo(stage: Stage) -> Algorithm:
    """The paper's modified DAPO (section 4.3): groups with contrast, normalised in the group, asymmetric clip, token mean, no KL.

    Minibatches hold whole groups, so that what adds up to zero in a group does so in every step; of shuffled attempts a small one can
    hold failures alone. Whether that is what matters was not isolated (docs/studies/laptop.md).
    """
    estimator: Estimator = GroupNormalised(lowered=stage.lowered) if stage.baseline == "group" else LengthWeighted(lowered=stage.lowered)
    if stage.step_weight:
        estimator = Anchored(estimator, stage.step_weight, stage.discount)
    if stage.certain < 1:
        estimator = Decisions(estimator, stage.certain)
    failures = WITHHOLD_FROM_WASTE if stage.waste == "withhold" else KEEP_ALL
    return Algorithm(
        partial(contrast, on=stage.filter_on), estimator, clipped(stage.clip_low, stage.clip_high), failures, whole_groups=True
    )


def shaped(length_threshold: int, turns: int, weight: float) -> RewardFunction:
    """The tests decide and long attempts pay, PAPER sections 6.1 and 6.2; `weight` is 1 there."""
    return Weighted((Resolved(), TurnPenalty(length_threshold, turns)), (1.0, weight))
