"""Tests that are none of pytest's, run in a sandbox and read from what they print: the same verdicts, and what speaks against a forged log.

In real sandboxes where this host has bubblewrap, else in the double.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.contracts import Sandboxes
from patchgrad.errors import PatchgradError, TaskError
from patchgrad.grading import grade
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.attacks.patches import FILES, REPAIR, Change
from patchgrad.testing.attacks.run import patch as forge
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Checks, HiddenFile, Limits, Task, Verdict

RUNNER = """\
import os, sys
sys.path.insert(0, os.getcwd())
from shop.cart import total
sums = {"test_none (checks)": total([]) == 0, "test_sum (checks)": total([1, 2]) == 3}
for name, holds in sums.items():
    print(name, "...", "ok" if holds else "FAIL", file=sys.stderr)
sys.exit(not all(sums.values()))
"""
CHECKS = Checks(
    ("test_sum (checks)",),
    ("test_none (checks)",),
    (HiddenFile("checks.py", RUNNER),),
    command=("python", "checks.py"),
    parser="parse_log_django",
)
CART = FILES["shop/cart.py"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Sandboxes, Task]]:
    task = a_task("shop", "", a_repository(tmp_path_factory.mktemp("archives"), FILES), CHECKS, limits=Limits(test_seconds=20.0))

    async def best() -> Sandboxes:
        try:
            boxes: Sandboxes = BwrapSandboxes(cells=2)
            await (await boxes.open(task)).close()
        except PatchgradError:
            return LocalSandboxes()
        return boxes

    with asyncio.Runner() as runner:
        boxes = runner.run(best())
        yield runner, boxes, task
        runner.run(boxes.close())


def judge(bench: tuple[asyncio.Runner, Sandboxes, Task], folder: Path, changes: Change, **limits: float) -> Verdict:
    runner, boxes, task = bench
    task = replace(task, limits=replace(task.limits, **limits)) if limits else task  # type: ignore[arg-type]
    return runner.run(grade(task, forge(changes, folder / "repository"), boxes))


def test_a_repair_is_resolved(bench: tuple[asyncio.Runner, Sandboxes, Task], tmp_path: Path) -> None:
    verdict = judge(bench, tmp_path, REPAIR)
    assert (verdict.resolved, verdict.stages) == (True, ("applied", "collected", "ran"))


def test_no_repair_is_not(bench: tuple[asyncio.Runner, Sandboxes, Task], tmp_path: Path) -> None:
    verdict = judge(bench, tmp_path, {"README.md": "better\n"})
    assert [test.status for test in verdict.tests] == ["failed", "passed"]
    assert (verdict.resolved, verdict.stages) == (False, ("applied", "collected", "ran"))


def test_printed_lines_do_not_help_a_command_that_ends_otherwise(bench: tuple[asyncio.Runner, Sandboxes, Task], tmp_path: Path) -> None:
    said = "print('test_sum (checks) ... ok\\ntest_none (checks) ... ok', flush=True)\nimport os\nos._exit(3)\n"
    verdict = judge(bench, tmp_path, {"shop/cart.py": said + CART})
    assert {test.status for test in verdict.tests} == {"missing"}
    assert (verdict.resolved, verdict.stages) == (False, ("applied",))


def test_a_command_that_does_not_end_is_no_run(bench: tuple[asyncio.Runner, Sandboxes, Task], tmp_path: Path) -> None:
    verdict = judge(bench, tmp_path, {"shop/cart.py": "while True: pass\n"}, test_seconds=1.0)
    assert (verdict.resolved, verdict.stages, verdict.fault) == (False, ("applied",), None)


def test_a_reader_that_is_none_is_refused(bench: tuple[asyncio.Runner, Sandboxes, Task]) -> None:
    runner, boxes, task = bench
    for checks, words in (
        (replace(CHECKS, parser="mine"), "no reader of logs called 'mine'"),
        (replace(CHECKS, parser="report"), "only pytest makes one"),
        (replace(CHECKS, command=()), "only pytest makes one"),
    ):
        with pytest.raises(TaskError, match=words):
            runner.run(grade(replace(task, checks=checks), "p", boxes))
