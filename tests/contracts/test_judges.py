"""Every judge against the contract."""

from __future__ import annotations

import asyncio
import math

import pytest

from patchgrad.grading.judges import FunctionJudge, PatchSize
from patchgrad.testing import check_judge
from patchgrad.values import Judgement, Task, Trajectory, Verdict


def test_the_size_of_a_patch_keeps_the_contract() -> None:
    asyncio.run(check_judge(PatchSize()))


def test_a_user_s_function_as_a_judge_keeps_the_contract() -> None:
    def length(task: Task, trajectory: Trajectory, verdict: Verdict) -> int:
        return len(trajectory.turns)

    asyncio.run(check_judge(FunctionJudge(length)))


def test_a_judge_whose_score_is_no_number_is_found_out() -> None:
    async def undecided(task: Task, trajectory: Trajectory, verdict: Verdict) -> Judgement:
        return Judgement("undecided", math.nan)

    with pytest.raises(AssertionError, match="score of a judgement is finite"):
        asyncio.run(check_judge(undecided))
