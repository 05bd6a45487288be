"""How a policy is measured on held-out tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from patchgrad.config import require, within
from patchgrad.recipes.limits import AttemptLimits
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.stage import Stage
from patchgrad.values import Sampling


@dataclass(frozen=True, slots=True)
class Validation:
    """Tasks to choose policies by: so many of those to train on, and at most a quarter of them, with so many `attempts` at each. No attempt
    at them is trained on.

    After each stage the policy that it ends with is compared with the one that it began with (`runs/phases/choice.py`); with none the last
    policy is taken. Actions are drawn and limited as in an evaluation.
    """

    tasks: int = 0
    attempts: int = 2

    def __post_init__(self) -> None:
        within(0, inf, "validation.", self, "tasks")
        within(1, inf, "validation.", self, "attempts")


@dataclass(frozen=True, slots=True)
class EvaluationChoice:
    """Held-out evaluation. Every policy of a run is measured under these `limits`, so that no difference is one of budget alone; or, where
    `limits_per_policy` are its `own`, each under the turns and the context of the phase that trained it, as in the paper: only the base
    and the last policy have these then.

    It comes after every phase, the base included, or after the `last` alone. Of RL's iterations every so many are followed by one on a
    `sample` of the tasks, for the curves; with 0 none. Where Verified-50 is among the tasks held out, it is the sample, as in the paper.

    Pass@k is of `k` attempts, or of all where it is 0. Sampling is neutral unless it is set, and always told to the policy and by the
    report. With `best_of` the best of k is chosen too, by `grading.VisibleTests`.
    """

    after: Literal["phases", "last"] = "phases"
    limits_per_policy: Literal["same", "own"] = "same"
    every: int = 0
    sample: int = 50
    attempts: int = 2
    k: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    best_of: Literal["", "visible tests"] = ""
    limits: AttemptLimits = field(default=AttemptLimits(turns=20, context=2048))

    def __post_init__(self) -> None:
        within(0, inf, "evaluation.", self, "every")
        within(1, inf, "evaluation.", self, "sample", "attempts")
        require(0 <= self.k <= self.attempts, f"evaluation.k is {self.k}; pass@k of {self.attempts} attempts needs a k up to them")
        require(self.temperature >= 0, f"evaluation.temperature is {self.temperature}; it must be 0, which takes the likeliest, or above")
        require(0 < self.top_p <= 1, f"evaluation.top_p is {self.top_p}; it must be above 0, and at most 1, which cuts nothing")
        require(self.top_k >= 0, f"evaluation.top_k is {self.top_k}; it must be at least 0, which cuts nothing")
        require(0 <= self.min_p < 1, f"evaluation.min_p is {self.min_p}; it must be from 0, which cuts nothing, to below 1")
        require(self.repetition_penalty > 0, f"evaluation.repetition_penalty is {self.repetition_penalty}; 1 is none")

    def under(self, phase: Rft | Stage | None) -> EvaluationChoice:
        """The evaluation of a policy that this phase trained and others train on; of none for the base and the last one."""
        if phase is None or self.limits_per_policy == "same":
            return self
        return replace(self, limits=replace(self.limits, turns=phase.limits.turns, context=phase.limits.context))

    @property
    def drawn(self) -> int:
        """The k of pass@k."""
        return self.k or self.attempts

    @property
    def told(self) -> dict[str, float]:
        """The sampling as a report tells it."""
        return {name: float(getattr(self, name)) for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}

    @property
    def sampling(self) -> Sampling:
        """How actions are drawn; seed and length are the rollout's."""
        return Sampling(1, 0, self.temperature, self.top_p, self.top_k, self.min_p, self.repetition_penalty)
