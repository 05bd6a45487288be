"""What every estimator of advantages must hold, as one function that its author runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from patchgrad.contracts import Estimator
from patchgrad.testing.examples import example_group
from patchgrad.values import Floats, Group

REWARDS = ((1.0, 0.0, 0.0), (1.0, 0.5, -0.2, 0.0), (1.0, 0.0), (0.1, 0.2, 0.3, 0.3, 0.3), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.0))


def _zero(_: float) -> float:
    return 0.0


def check_estimator(estimator: Estimator, *, equal: Callable[[float], float] = _zero) -> None:
    """Raises `AssertionError` for the first rule that an estimator breaks.

    A group has one array for each of its attempts, forks included, with a finite `float32` for each of their action tokens; the order of
    attempts does not matter; the same group has the same advantages, and is not changed; and where all attempts earned the same, every
    token has the advantage that `equal` says of that reward: 0, where an estimator compares attempts with one another. That holds exactly,
    so that no rounding becomes a signal, and for an attempt alone too.
    """
    for number, rewards in enumerate(REWARDS):
        for forks in (False, True):
            _check_group(estimator, example_group(rewards, f"group {number}", forks))
    for reward in (0.0, 1.0, 0.1, -0.3, 2 / 3):
        for count in (1, 3, 4):
            for array in estimator(example_group([reward] * count)):
                expected = np.float32(equal(reward))
                assert (array == expected).all(), f"{count} attempts that all earned {reward} have advantages of {expected}, not {array}"


def _check_group(estimator: Estimator, group: Group) -> None:
    before = repr(group)
    found = _checked(estimator, group)
    assert repr(group) == before, "an estimator changes no group"
    count = len(group.rollouts)
    for order in (tuple(reversed(range(count))), *itertools.islice(itertools.permutations(range(count)), 1, 4)):
        turned = _checked(estimator, Group(tuple(group.rollouts[place] for place in order)))
        for place, array in zip(order, turned, strict=True):
            assert np.allclose(array, found[place], rtol=1e-5, atol=1e-6), "the order of attempts changes no advantage"
    again = estimator(group)
    assert all(map(np.array_equal, again, found)), "the same group has the same advantages"


def _checked(estimator: Estimator, group: Group) -> list[Floats]:
    found = estimator(group)
    assert len(found) == len(group.rollouts), "there is one array for each attempt"
    for rollout, array in zip(group.rollouts, found, strict=True):
        tokens = sum(len(turn.action.token_ids) for turn in rollout.trajectory.turns)
        assert array.shape == (tokens,), f"there is one advantage for each of {tokens} action tokens, not {array.shape}"
        assert array.dtype == np.float32, "advantages are float32"
        assert np.isfinite(array).all(), "advantages are finite"
    return found
