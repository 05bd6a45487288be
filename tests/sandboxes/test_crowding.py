"""A crowded machine judges as an idle one: limits count work, so nothing fails for having waited."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from patchgrad.contracts import Result
from patchgrad.grading import grade
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Checks, Limits, Task, Verdict

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")]

CORES = len(os.sched_getaffinity(0))
CODE = "def double(n):\n    return n + n + {error}\n"
SUITE = """import time

from double import double


def test_small():
    assert double(2) == 4


def test_of_work():
    end = time.process_time() + 0.6
    while time.process_time() < end:
        assert double(1000) == 2000


def test_of_waiting():
    time.sleep(0.3)
    assert double(0) == 0


def test_of_kind():
    assert isinstance(double(1), int)
"""
BODIES = {"right": "n + n", "wrong": "n + n + 2", "hangs": "double(n) if n < 0 else next(iter(int, 1))", "breaks": "n +"}


def patch(body: str, error: int) -> str:
    return f"--- a/double.py\n+++ b/double.py\n@@ -1,2 +1,2 @@\n def double(n):\n-    return n + n + {error}\n+    return {body}\n"


def cases(folder: Path) -> list[tuple[Task, str]]:
    found = []
    for error in (1, 3, 5):
        repository = a_repository(folder, {"double.py": CODE.format(error=error), "test_double.py": SUITE})
        failing = tuple(f"test_double.py::test_{name}" for name in ("small", "of_work", "of_waiting"))
        limits = Limits(command_seconds=2.0, test_seconds=4.0)
        task = a_task(f"double-{error}", "", repository, Checks(failing, ("test_double.py::test_of_kind",)), limits=limits)
        found += [(task, patch(body, error)) for body in BODIES.values()]
    return found


COMMANDS = (
    "pytest -q",
    "python -c 'import time\nwhile time.process_time() < 0.8: pass\nprint(1)'",
    "while :; do :; done",
    "sleep 1; echo slept",
)


async def judged(width: int, listed: list[tuple[Task, str]]) -> list[Verdict]:
    backend = BwrapSandboxes(cells=width)
    try:
        numbered = LocalExecutor(width).map(f"{__name__}:numbered_verdict", backend, enumerate(listed))
        verdicts = {number: verdict async for number, verdict in numbered}
    finally:
        await backend.close()
    return [dataclasses.replace(verdicts[number], seconds=0.0) for number in range(len(listed))]


async def numbered_verdict(backend: BwrapSandboxes, item: tuple[int, tuple[Task, str]]) -> tuple[int, Verdict]:
    number, case = item
    return number, await grade(*case, backend)


async def answers(shared: tuple[BwrapSandboxes, Task], number: int) -> list[Result]:
    """What one sandbox says to each of the commands."""
    backend, task = shared
    async with await backend.open(task) as sandbox:
        return [await sandbox.run(command) for command in COMMANDS]


def test_a_suite_is_judged_alike_at_one_and_at_eight_sandboxes_a_core(tmp_path: Path) -> None:
    listed = cases(tmp_path) * 2
    alone = asyncio.run(judged(CORES, listed))
    crowded = asyncio.run(judged(8 * CORES, listed))
    assert crowded == alone
    outcomes = [verdict.resolved for verdict in alone]
    assert outcomes == [True, False, False, False] * 6
    assert [verdict.fault for verdict in alone] == [None] * 24


def test_an_agent_s_command_ends_alike_at_one_and_at_eight_sandboxes_a_core(tmp_path: Path) -> None:
    (task, _), *_ = cases(tmp_path)

    async def results(width: int) -> list[list[tuple[str, int | None]]]:
        backend = BwrapSandboxes(cells=width)
        try:
            said = LocalExecutor(width).map(f"{__name__}:answers", (backend, task), range(8 * CORES))
            return [[(done.state, done.exit_code) for done in episode] async for episode in said]
        finally:
            await backend.close()

    expected = [("ok", 1), ("ok", 0), ("timeout", None), ("ok", 0)]
    for width in (CORES, 8 * CORES):
        assert asyncio.run(results(width)) == [expected] * (8 * CORES)
