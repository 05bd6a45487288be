"""What every scorer must hold, as one function that its author runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from patchgrad.contracts import Scorer
from patchgrad.values import Checks, HiddenFile, Task, Trajectory


async def check_scorer(scorer: Scorer, task: Task, trajectories: Sequence[Trajectory]) -> None:
    """Raises `AssertionError` for the first rule that a scorer breaks, asked about attempts at a task that it does not abstain from.

    There is one finite score for each attempt, in their order; the order in which they are given does not matter; and hidden tests take
    no part: a task with other ones has the same scores, and says as little about the attempts.
    """
    found = await scorer(task, trajectories)
    assert found is not None, "the scorer abstains: give it a task and attempts that it scores"
    assert len(found) == len(trajectories), "there is one score for each attempt"
    assert all(math.isfinite(score) for score in found), "scores are finite"
    turned = await scorer(task, list(reversed(trajectories)))
    assert turned is not None, "a scorer that scores attempts does so in any order"
    assert turned[::-1] == found, "the order of attempts changes no score"
    hidden = Checks(
        ("no/such.py::test_this",),
        ("nor/such.py::test_that",),
        (HiddenFile("tests/test_hidden.py", "def test_hidden():\n    assert False\n"),),
        task.checks.protected,
        task.checks.command,
        task.checks.parser,
        "no patch at all",
    )
    assert await scorer(replace(task, checks=hidden), trajectories) == found, "hidden tests change no score"
