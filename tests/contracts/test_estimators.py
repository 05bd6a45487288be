"""Every estimator of advantages against the contract."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.contracts.naming import named

from patchgrad.contracts import Estimator
from patchgrad.learning import advantages
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
)
from patchgrad.testing import check_estimator
from patchgrad.values import Floats, Group, floats


def above_the_worst(group: Group) -> list[float]:
    """A user's estimator."""
    rewards = [rollout.reward.value for rollout in group.rollouts]
    return [reward - min(rewards) for reward in rewards]


COMPARING: tuple[Estimator, ...] = (
    GroupNormalised(),
    GroupNormalised(std="sample"),
    GroupNormalised(baseline_offset=0.1),
    MeanOnly(),
    LeaveOneOut(),
    LengthWeighted(),
    LengthWeighted(baseline_offset=0.1),
    MeanScaled(),
    Branched(),
    Branched(baseline_offset=0.1),
    FunctionEstimator(above_the_worst),
    Anchored(GroupNormalised()),
    Anchored(LeaveOneOut(), weight=0.5, discount=1.0),
)
OTHERS: tuple[tuple[Estimator, Callable[[float], float]], ...] = (
    (Ones(), lambda reward: 1.0),
    (Returns(), lambda reward: reward),
    (Returns(baseline=0.25), lambda reward: reward - 0.25),
    (Anchored(Returns()), lambda reward: reward),
)


@pytest.mark.parametrize("estimator", COMPARING, ids=named)
def test_an_estimator_that_compares_attempts_keeps_the_contract(estimator: Estimator) -> None:
    check_estimator(estimator)


@pytest.mark.parametrize(("estimator", "equal"), OTHERS, ids=lambda value: str(value) if not callable(value) else "")
def test_an_estimator_that_compares_nothing_keeps_the_contract(estimator: Estimator, equal: Callable[[float], float]) -> None:
    check_estimator(estimator, equal=equal)


def test_every_estimator_of_the_folder_is_checked() -> None:
    checked = {type(estimator).__name__ for estimator in (*COMPARING, *(one for one, _ in OTHERS))}
    assert checked == {name for name in advantages.__all__ if name[0].isupper()}


def test_an_estimator_that_favours_the_first_attempt_is_found_out() -> None:
    def first(group: Group) -> list[Floats]:
        return [
            floats(np.full(sum(len(turn.action.token_ids) for turn in rollout.trajectory.turns), float(not place)))
            for place, rollout in enumerate(group.rollouts)
        ]

    with pytest.raises(AssertionError, match="order of attempts"):
        check_estimator(first)
