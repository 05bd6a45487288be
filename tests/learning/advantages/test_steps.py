"""Turns that began in one state are compared with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.contracts import Estimator
from patchgrad.learning.advantages import Anchored, GroupNormalised, LengthWeighted
from patchgrad.values import (
    NO_IDS,
    Action,
    Call,
    Checks,
    Floats,
    Group,
    Observation,
    Repository,
    Reward,
    Rollout,
    Segment,
    Task,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
)

TASK = Task("t", "", Repository("archive", "", ""), Checks((), ()))


def attempt(reward: float, *states: str) -> Rollout:
    """One turn of two tokens for each state that it left behind."""
    action = Action(ids([1, 2]), floats([-1.0, -1.0]), 0, "", "stop")
    turns = tuple(Turn(NO_IDS, action, Call("shell", ""), Observation("", ToolState()), state, "") for state in states)
    return Rollout(TASK, Trajectory("a", "t", (Segment(turns),), "submitted", ""), Verdict("t", "", (), ()), Reward(reward, {}))


def nothing(group: Group) -> list[Floats]:
    return [floats(np.zeros(2 * len(rollout.trajectory.turns))) for rollout in group.rollouts]


def turns(estimator: Estimator, *rollouts: Rollout) -> list[Any]:
    return [pytest.approx(row.reshape(-1, 2).mean(1).tolist(), abs=1e-5) for row in estimator(Group(rollouts))]


def test_the_example_of_the_docstring() -> None:
    found = turns(Anchored(nothing, discount=0.5), attempt(1, "clean", "clean", "fixed", "fixed"), attempt(0, "clean", "clean", "clean"))
    assert found == [[0.125, 0.125, 0.625, 0.0], [-0.125, -0.375, -0.375]]  # the first turns' returns are 0.125 and 0


def test_a_turn_is_compared_where_files_and_place_agree_and_alone_it_has_its_attempt_s_advantage() -> None:
    whole = GroupNormalised()
    pair = attempt(1, "a", "b"), attempt(0, "c", "d")
    assert turns(Anchored(whole, discount=1.0), *pair) == [[2.0, 1.0], [-2.0, -1.0]]
    assert turns(Anchored(whole, weight=0.0), *pair) == [[1.0, 1.0], [-1.0, -1.0]]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.4, 1.0]), st.lists(st.sampled_from("ab"), min_size=1, max_size=5)), min_size=2, max_size=6)
)
def test_steps_of_one_state_add_up_to_zero(played: list[tuple[float, list[str]]]) -> None:
    group = Group(tuple(attempt(reward, *states) for reward, states in played))
    sums: dict[str, float] = {}
    for rollout, row in zip(group.rollouts, Anchored(nothing)(group), strict=True):
        begun = ["", *(turn.state for turn in rollout.trajectory.turns[:-1])]
        for state, value in zip(begun, row[::2].tolist(), strict=True):
            sums[state] = sums.get(state, 0.0) + value
    assert all(abs(total) < 1e-4 for total in sums.values())


def test_a_group_without_contrast_teaches_nothing() -> None:
    assert not np.concatenate(Anchored(LengthWeighted(baseline_offset=0.1))(Group((attempt(1, "a"), attempt(1, "a", "b"))))).any()
