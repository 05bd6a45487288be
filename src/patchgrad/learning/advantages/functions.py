"""A user's function as an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchgrad.errors import ComponentError
from patchgrad.functions import calling, named, requires, wrong
from patchgrad.values import Floats, Group, Rollout, floats


@dataclass(frozen=True, slots=True)
class FunctionEstimator:
    """Advantages by a function of the attempts at a task: for each attempt a number, which all of its action tokens get, or one a token.

        def above_the_worst(group):
            rewards = [rollout.reward.value for rollout in group.rollouts]
            return [reward - min(rewards) for reward in rewards]

    Raises `ComponentError` for other arguments, and when it is called for one that fails, or gives too few, too many or no finite numbers.
    """

    function: Callable[..., object]

    def __post_init__(self) -> None:
        requires(self.function, "estimator", (1,), "group")

    def __call__(self, group: Group) -> list[Floats]:
        of = group.rollouts[0].trajectory.id
        with calling("estimator", self.function, f"the group of {of}"):
            found = self.function(group)
        if not isinstance(found, Sequence | np.ndarray) or isinstance(found, str):
            raise wrong("estimator", self.function, found, "a list with an entry for each attempt", f"the group of {of}")
        if len(found) != len(group.rollouts):
            raise self._shape(f"{len(found)} entries for the {len(group.rollouts)} attempts", of)
        return [self._of(one, rollout) for one, rollout in zip(found, group.rollouts, strict=True)]

    def _of(self, told: Any, rollout: Rollout) -> Floats:
        """The advantages of one attempt's action tokens."""
        needed, attempt = sum(len(turn.action.token_ids) for turn in rollout.trajectory.turns), rollout.trajectory.id
        with calling("estimator", self.function, attempt):
            values = np.asarray(told, np.float64)
        if values.ndim == 0:
            values = np.full(needed, values)
        if values.shape != (needed,):
            raise self._shape(f"an array of shape {values.shape} for the {needed} action tokens", attempt)
        if not np.isfinite(values).all():
            raise ComponentError(f"The estimator {named(self.function)} returned an advantage of {attempt} that is not finite.")
        return floats(values)

    def _shape(self, told: str, of: str) -> ComponentError:
        return ComponentError(f"The estimator {named(self.function)} returned {told} of {of}: it is one number for each.")
