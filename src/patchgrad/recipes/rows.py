"""The table of algorithms, for a recipe to name one; values, without torch, so that a recipe can be printed and refused anywhere.

`runs/algorithms.py` makes a row into functions; `docs/guide/algorithms.md` says when to use which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from patchgrad.config import require
from patchgrad.learning.failures import PENALTY
from patchgrad.recipes.component import Component
from patchgrad.recipes.failures import KEEP, Failures

Name = Literal[
    "dapo",
    "grpo",
    "dr-grpo",
    "rloo",
    "maxrl",
    "reinforce",
    "reinforce++",
    "reinforce++-baseline",
    "dual-clip",
    "gspo",
    "cispo",
    "cispo-two-sided",
]
Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm", "group-mean-token-mean"]
Filter = Literal["outcome", "reward", "nothing"]
Baseline = Literal["group", "tokens", "turns"]
Old = Literal["sampled", "recomputed"]


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm, whole: as it was published, until a stage sets something otherwise (`Stage.row`).

    Groups teach whose attempts differ in their `outcome`, as DAPO's dynamic sampling has it, or in their `reward`; with `nothing` all do
    that infrastructure did not break. `estimator` and `objective` are names of `component.BUILT_IN` or the user's own. `clip_low` and
    `clip_high` are the bounds of a clip, `None` where there is none, and `dual` a second one where A < 0. `whiten` scales advantages over
    all groups.

    A `normalised` advantage is taken to the `baseline`, the mean reward of the group or of its `tokens` (`advantages.LengthWeighted`) or
    the value of the `turns` before (`advantages.Branched`), less `baseline_offset`. `step_weight` adds what a turn did better than others
    that began in its state (`advantages.Anchored`). Tokens that the policy was `confident_above` of are not blamed, and turns that are
    penalised are worth at most minus the `penalty` (`credit.assign`).
    Ratios are to the `old` log-probabilities: those that the sampler told, or the trainer's own, `recomputed`.
    """

    estimator: Component
    objective: Component
    aggregate: Aggregation
    clip_low: float | None = None
    clip_high: float | None = None
    dual: float | None = None
    whiten: bool = False
    filter_on: Filter = "outcome"
    baseline: Baseline = "group"
    baseline_offset: float = 0.0
    step_weight: float = 0.0
    confident_above: float = 1.0
    penalty: float = PENALTY
    failures: Failures = KEEP
    old: Old = "sampled"


NORMALISED, MEAN, OTHERS = Component("normalised"), Component("mean"), Component("leave-one-out")
SCALED, RETURNS = Component("mean-scaled"), Component("returns")
REINFORCE, CLIP, GSPO = Component("reinforce"), Component("clip"), Component("gspo")
CISPO, TWO_SIDED = Component("cispo"), Component("cispo-two-sided")

ROWS: Mapping[Name, Row] = {
    "dapo": Row(NORMALISED, CLIP, "token-mean", 0.2, 0.28),
    "grpo": Row(NORMALISED, CLIP, "seq-mean-token-mean", 0.2, 0.2, filter_on="nothing"),
    "dr-grpo": Row(MEAN, CLIP, "seq-mean-token-sum-norm", 0.2, 0.2, filter_on="nothing"),
    "rloo": Row(OTHERS, CLIP, "token-mean", 0.2, 0.2, filter_on="nothing"),
    "maxrl": Row(SCALED, CLIP, "token-mean", 0.2, 0.2),
    "reinforce": Row(RETURNS, REINFORCE, "seq-mean-token-sum", filter_on="nothing"),
    "reinforce++": Row(RETURNS, CLIP, "token-mean", 0.2, 0.2, whiten=True, filter_on="nothing"),
    "reinforce++-baseline": Row(MEAN, CLIP, "token-mean", 0.2, 0.2, whiten=True),
    "dual-clip": Row(NORMALISED, CLIP, "token-mean", 0.2, 0.2, dual=3.0),
    "gspo": Row(NORMALISED, GSPO, "seq-mean-token-mean", 3e-4, 4e-4, filter_on="nothing"),
    "cispo": Row(NORMALISED, CISPO, "token-mean", None, 4.0),
    "cispo-two-sided": Row(NORMALISED, TWO_SIDED, "token-mean", 0.2, 0.28),
}
"""As published. `dapo` is arXiv 2503.14476's, with bounds of 0.2 and 0.28; arXiv 2508.03501 has 0.3 and 0.26 in their place. No row has
a KL penalty, which GRPO's first paper had and those who use it leave out."""


def possible(name: Name, row: Row) -> None:
    """Refuses bounds that the algorithm does not have, or that could not work; the row is the algorithm's with what a stage sets."""
    own, low, high = ROWS[name], row.clip_low, row.clip_high
    known = row.objective == own.objective  # another objective says itself what bounds it takes
    lacks = "but {} has no such bound: set it to none, or choose another algorithm"
    require(not known or low is None or own.clip_low is not None, f"clip_low is {low}, {lacks.format(name)}")
    require(not known or high is None or own.clip_high is not None, f"clip_high is {high}, {lacks.format(name)}")
    require(
        (low is None or 0 < low < 1) and (high is None or high > 0),
        f"clip_low must lie between 0 and 1, and clip_high above 0; they are {low} and {high}",
    )
    require(low is None or high is None or low <= high, f"clip_low {low} is above clip_high {high}: it must not be")
    require(
        row.dual is None or high is None or high < row.dual - 1,
        f"clip_high {high} leaves {name} nothing to bound, whose second clip is at {row.dual}: it must be below {(row.dual or 0) - 1:g}",
    )
    require(
        row.objective != GSPO or high is None or high <= 0.05,
        f"clip_high {high} would never act on {name}'s ratio, a mean over whole sequences: its paper has 3e-4 and 4e-4; "
        "set clip_low and clip_high to none for these",
    )
