"""The best of several attempts by the tests that the agent could see: real runs, and no look at what is hidden."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.errors import SandboxFault
from patchgrad.grading import VisibleTests
from patchgrad.grading.visible import NOTHING, as_shown, visible_tests
from patchgrad.testing import LocalSandboxes
from patchgrad.testing.attacks.patches import CHECKS, FILES, HIDDEN, REPAIR, Change
from patchgrad.testing.attacks.run import patch as forge
from patchgrad.testing.sandbox_double import LocalSandbox
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Checks, Limits, Snapshot, Task, Trajectory

BROKEN: Change = {"shop/cart.py": "def total(items):\n    return items[0]\n"}
SEEN = ("tests/test_cart.py::test_none", "tests/test_other.py::test_other")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    archive = a_repository(tmp_path / "archives", FILES)
    return a_task("shop", "total is wrong", archive, CHECKS, limits=Limits(test_seconds=20.0))


@pytest.fixture
def tried(tmp_path: Path) -> Callable[..., Trajectory]:
    """An attempt that ends with these changes."""
    return lambda changes, stop="submitted": Trajectory("a", "shop", (), stop, forge(changes, tmp_path / "repository") if changes else "")


def scores(task: Task, attempts: Sequence[Trajectory]) -> list[float] | None:
    return asyncio.run(VisibleTests(LocalSandboxes())(task, attempts))


def test_the_visible_tests_are_those_of_the_repository_as_it_is_handed_out(task: Task) -> None:
    assert asyncio.run(visible_tests(task, LocalSandboxes())) == SEEN
    assert "test_sum" in HIDDEN


def test_the_most_visible_tests_win_then_the_patch_that_most_attempts_agree_on(task: Task, tried: Callable[..., Trajectory]) -> None:
    another = {"shop/cart.py": REPAIR["shop/cart.py"], "README.md": "a shop\n"}
    cheat = {**BROKEN, "tests/test_cart.py": "def test_none():\n    pass\n"}
    attempts = [*map(tried, (REPAIR, another, REPAIR, BROKEN, cheat, {})), tried(REPAIR, "turn limit")]
    one, two = 1 / 8, 2 / 8
    assert scores(task, attempts) == pytest.approx([2 + two, 2 + one, 2 + two, 1 + one, 1 + one, NOTHING, NOTHING])


def test_hidden_checks_change_nothing(task: Task, tried: Callable[..., Trajectory]) -> None:
    other = replace(task, checks=Checks(("no/such.py::test",), ("nor::this",), protected=CHECKS.protected, patch="no patch at all"))
    attempts = [tried(BROKEN)]
    assert scores(other, attempts) == scores(task, attempts)
    assert as_shown(other, SEEN) == as_shown(task, SEEN)


def test_it_abstains_where_nothing_can_be_run(task: Task, tried: Callable[..., Trajectory], tmp_path: Path) -> None:
    attempts = [tried(REPAIR)]
    assert scores(replace(task, checks=replace(CHECKS, parser="parse_log_pytest")), attempts) is None
    bare = {name: text for name, text in FILES.items() if not name.startswith("tests")}
    assert scores(replace(task, repository=a_repository(tmp_path / "bare", bare)), attempts) is None
    endless = {**FILES, "tests/test_slow.py": "import time\ntime.sleep(60)\n"}
    slow = replace(task, repository=a_repository(tmp_path / "slow", endless), limits=Limits(test_seconds=0.2))
    assert scores(slow, attempts) is None


class Broken(LocalSandboxes):
    async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
        raise SandboxFault("no room")


def test_it_abstains_where_a_sandbox_breaks(task: Task, tried: Callable[..., Trajectory]) -> None:
    assert asyncio.run(VisibleTests(Broken())(task, [tried(REPAIR)])) is None
