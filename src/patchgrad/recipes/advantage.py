"""What an attempt's tokens are worth in a stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from patchgrad.config import require, within
from patchgrad.recipes.component import Component, named
from patchgrad.recipes.failures import Failures
from patchgrad.recipes.rows import Baseline, Filter


@dataclass(frozen=True, slots=True)
class AdvantageChoice:
    """What is none is the row's own (`rows.Row`). `baseline` and `baseline_offset` are of rows whose advantages are `normalised`.

    `discount` is the step advantage's, by turns (`advantages.Anchored`), where there is a `step_weight`.
    """

    estimator: Component | None = None
    filter_on: Filter | None = None
    baseline: Baseline | None = None
    baseline_offset: float | None = None
    step_weight: float | None = None
    discount: float = 0.9
    confident_above: float | None = None
    penalty: float | None = None
    failures: Failures = field(default=Failures())

    def __post_init__(self) -> None:
        named("estimators", "a stage's advantage.estimator", self.estimator)
        within(0, inf, "advantage.", self, "step_weight")
        within(0, 1, "advantage.", self, "discount")
        offset, sure = self.baseline_offset, self.confident_above
        require(self.penalty is None or self.penalty > 0, f"penalty is {self.penalty}; it is taken off, so it is more than 0")
        require(offset is None or offset >= 0, f"baseline_offset is {offset}; a baseline can only be lowered, by 0 or more")
        require(
            sure is None or 0 < sure <= 1,
            f"confident_above is {sure}; it is a probability above which no token is blamed, and 1 blames all",
        )
