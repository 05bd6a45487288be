"""Every scorer against the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchgrad.grading import VisibleTests
from patchgrad.tasks.archive import pack, store
from patchgrad.testing import LocalSandboxes, check_scorer
from patchgrad.testing.attacks.patches import CHECKS, FILES, REPAIR
from patchgrad.testing.attacks.run import patch as forge
from patchgrad.values import Limits, Task, Trajectory

BROKEN = {"shop/cart.py": "def total(items):\n    return items[0]\n"}


@pytest.fixture
def task(tmp_path: Path) -> Task:
    archive = store(tmp_path / "archives", pack({name: text.encode() for name, text in FILES.items()}))
    return Task("shop", "total is wrong", archive, CHECKS, limits=Limits(test_seconds=60.0))


def test_visible_tests_keep_the_contract(task: Task, tmp_path: Path) -> None:
    patches = [forge(changes, tmp_path / "repository") for changes in (REPAIR, BROKEN)]
    attempts = [Trajectory(str(number), "shop", (), "submitted", patch) for number, patch in enumerate([*patches, ""])]
    asyncio.run(check_scorer(VisibleTests(LocalSandboxes()), task, attempts))


def test_a_scorer_that_looks_at_hidden_tests_is_found_out(task: Task) -> None:
    async def peeking(task: Task, trajectories: Sequence[Trajectory]) -> list[float] | None:
        return [float("tests/test_cart.py::test_sum" in task.checks.fail_to_pass)] * len(trajectories)

    with pytest.raises(AssertionError, match="hidden tests change no score"):
        asyncio.run(check_scorer(peeking, task, [Trajectory("a", "shop", (), "submitted", "")]))
