"""Every reward function against the contract."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from tests.contracts.naming import named

from patchgrad.contracts import RewardFunction
from patchgrad.grading.rewards import FunctionReward, Resolved, TurnPenalty, Weighted
from patchgrad.testing import check_reward
from patchgrad.values import Judgement, Reward, Task, Trajectory, Verdict


def small(task: Task, trajectory: Trajectory, verdict: Verdict) -> float:
    """A user's reward."""
    return verdict.resolved / (1 + trajectory.submission.count("\n") / 100)


def judged(task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement]) -> Reward:
    """One that looks at judgements and names its parts."""
    size = -0.01 * sum(one.score for one in judgements)
    return Reward(float(verdict.resolved) + size, {"resolved": float(verdict.resolved), "size": size})


REWARDS: tuple[RewardFunction, ...] = (
    Resolved(),
    Resolved(unsubmitted=True),
    TurnPenalty(10, 40),
    TurnPenalty(0, 1),
    FunctionReward(small),
    FunctionReward(judged),
    Weighted((Resolved(), TurnPenalty(10, 40))),
    Weighted((Resolved(), TurnPenalty(1, 2)), (0.1, -0.7)),
    Weighted((Weighted((Resolved(),), (3.0,)), TurnPenalty(1, 2))),
)


@pytest.mark.parametrize("reward", REWARDS, ids=named)
def test_a_reward_keeps_the_contract(reward: RewardFunction) -> None:
    check_reward(reward)
    check_reward(reward, ())


def test_a_reward_that_hides_a_part_or_changes_its_mind_is_found_out() -> None:
    def hiding(task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement]) -> Reward:
        return Reward(1.0, {"resolved": 0.5})

    with pytest.raises(AssertionError, match="add up to it"):
        check_reward(hiding)
    count = itertools.count()

    def moody(task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement]) -> Reward:
        value = float(next(count))
        return Reward(value, {"mood": value})

    with pytest.raises(AssertionError, match="pure function"):
        check_reward(moody)
