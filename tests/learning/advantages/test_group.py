"""Golden values of METHODS 1.10, and what any group-relative estimator must hold to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.contracts import Estimator
from patchgrad.learning.advantages import GroupNormalised, LeaveOneOut, LengthWeighted, MeanOnly, MeanScaled, Ones, Returns
from patchgrad.learning.advantages.group import leave_one_out, mean_scaled, normalised
from patchgrad.values import (
    NO_IDS,
    Action,
    Call,
    Checks,
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
GOLDEN = [1.0, 0.0, 0.0, 1.0, 0.5]


def group(rewards: list[float]) -> Group:
    rollouts = []
    for number, reward in enumerate(rewards):
        action = Action(ids(range(number + 1)), floats([-1.0] * (number + 1)), 0, "", "stop")
        turn = Turn(NO_IDS, action, Call("shell", ""), Observation("", ToolState()), "", "")
        trajectory = Trajectory(str(number), "t", (Segment((turn,)), Segment((turn,))), "submitted", "")
        rollouts.append(Rollout(TASK, trajectory, Verdict("t", "", (), ()), Reward(reward, {})))
    return Group(tuple(rollouts))


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (GroupNormalised("sample"), [0.999998, -0.999998, -0.999998, 0.999998, 0]),
        (GroupNormalised("population"), [1.1180315, -1.1180315, -1.1180315, 1.1180315, 0]),
        (MeanOnly(), [0.5, -0.5, -0.5, 0.5, 0]),
        (LeaveOneOut(), [0.625, -0.625, -0.625, 0.625, 0]),
        (MeanScaled(), [1, -1, -1, 1, 0]),
        (Returns(), GOLDEN),
        (Returns(baseline=0.5), [0.5, -0.5, -0.5, 0.5, 0]),
        (Ones(), [1, 1, 1, 1, 1]),
    ],
)
def test_golden_values_one_per_action_token(estimator: Estimator, expected: list[float]) -> None:
    found = estimator(group(GOLDEN))
    assert [len(row) for row in found] == [2, 4, 6, 8, 10]
    assert all(row.dtype == np.float32 and not row.flags.writeable for row in found)
    for row, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(row, value, atol=1e-6)


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=12))
def test_advantages_sum_to_zero_and_keep_the_order(rewards: list[float]) -> None:
    values = np.array(rewards, np.float64)
    for advantage in (normalised(values), normalised(values, "sample"), leave_one_out(values)):
        assert abs(advantage.sum()) < 1e-3
        order = np.argsort(values, kind="stable")
        assert (np.diff(advantage[order]) >= -1e-9).all()


@given(st.floats(-1, 1), st.integers(1, 12))
def test_equal_rewards_teach_nothing(reward: float, count: int) -> None:
    values = np.full(count, reward)
    assert not normalised(values, "sample").any()
    assert not normalised(values).any()
    np.testing.assert_allclose(leave_one_out(values), 0, atol=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [GroupNormalised(), GroupNormalised("sample"), MeanOnly(), LeaveOneOut(), LengthWeighted(baseline_offset=0.1), MeanScaled()],
    ids=str,
)
def test_an_attempt_without_others_teaches_nothing(estimator: Estimator) -> None:
    assert not estimator(group([1.0]))[0].any()


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=12))
def test_the_rarer_a_success_is_the_more_it_weighs(rewards: list[float]) -> None:
    values = np.array(rewards)
    found, solved = mean_scaled(values), int(values.sum())
    assert abs(found.sum()) < 1e-9
    if 0 < solved < len(rewards):
        np.testing.assert_allclose(found[values == 1], len(rewards) / solved - 1)
        np.testing.assert_allclose(found[values == 0], -1)
    else:
        assert not found.any()


def test_no_reward_is_scaled_by_a_mean_that_is_not_above_zero() -> None:
    assert not mean_scaled(np.array([0.1, -0.1, -0.3])).any()
    assert not mean_scaled(np.array([0.5, -0.5])).any()


@given(st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=12))
def test_length_weighted_advantages_sum_to_zero_over_tokens(rewards: list[float]) -> None:
    found = LengthWeighted()(group(rewards))
    assert abs(sum(float(row.sum()) for row in found)) < 1e-2
    if len(set(rewards)) == 1:
        assert not any(row.any() for row in found)


def test_replayed_tokens_are_no_weight() -> None:
    first, second = group([1.0, 0.0]).rollouts
    longer = replace(second.trajectory, segments=(Segment((*first.trajectory.turns, *second.trajectory.turns)),))
    replayed = replace(second, trajectory=replace(longer, replayed=len(first.trajectory.turns)))
    plain, after = LengthWeighted()(Group((first, second))), LengthWeighted()(Group((first, replayed)))
    assert [row[0] for row in after] == [row[0] for row in plain]


def test_a_lowered_baseline_adds_the_same_to_successes_and_failures() -> None:
    plain, baseline_offset = LengthWeighted()(group([1.0, 0.0])), LengthWeighted(baseline_offset=0.1)(group([1.0, 0.0]))
    np.testing.assert_allclose([row[0] for row in baseline_offset], [row[0] + 0.2 for row in plain], atol=1e-5)
    np.testing.assert_allclose([row[0] for row in GroupNormalised(baseline_offset=0.1)(group([1.0, 0.0]))], [1.2, -0.8], atol=1e-5)
    for estimator in (GroupNormalised(baseline_offset=0.1), LengthWeighted(baseline_offset=0.1)):
        assert not any(row.any() for row in estimator(group([1.0, 1.0])))


def test_a_long_failure_is_pushed_down_less_where_the_baseline_is_of_tokens() -> None:
    of_rollouts, of_tokens = GroupNormalised()(group([1.0, 0.0, 0.0])), LengthWeighted()(group([1.0, 0.0, 0.0]))
    assert of_tokens[2][0] > of_rollouts[2][0]
    np.testing.assert_allclose([row[0] for row in LengthWeighted()(group([1.0, 0.0]))], [4 / 3, -2 / 3], atol=1e-5)
