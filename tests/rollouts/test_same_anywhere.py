"""The same attempts on an idle machine, on a busy one, and on a host with other programs: the same in every turn."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.rollouts.test_loop import Script, attempt_of, command, harness_of

from patchgrad.rollouts.loop import rollout
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.sandboxes import programs
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.tasks.synthetic.build import QUIET
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Task, Trajectory

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

BREAKS = "edit --file a.py 1:1 'x = 2'"
MENDS = "edit --file a.py 1:1 'x = 1'"
SCRIPTS = (
    (BREAKS, MENDS, "git checkout .", "git status"),
    ("git checkout .", BREAKS, "git diff", "git checkout .", "git log"),
    ("open a.py", "xdg-open a.py; opne a.py", BREAKS, "git add -A", "git checkout ."),
    (BREAKS, "git add a.py; git restore --staged a.py", MENDS, "git checkout .; git status --short; ls src"),
    ("pytest -q", "touch a.py", "git checkout .", "cd src; git diff --stat; pwd"),
)


def busy() -> None:
    """Computes until it is ended."""
    while True:
        sum(range(1000))


@contextmanager
def beside(count: int) -> Iterator[None]:
    """So many busy processes beside what is done here."""
    others = [multiprocessing.get_context("spawn").Process(target=busy, daemon=True) for _ in range(count)]
    for one in others:
        one.start()
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.join()


def taken(task: Task, at_once: bool, wait: float) -> list[Trajectory]:
    """All scripts twice, as attempts that share what was answered before: one after the other, or at once."""

    async def go() -> list[Trajectory]:
        boxes, cache = BwrapSandboxes(cells=4), ToolCache()
        try:
            jobs = [
                rollout(
                    harness_of(boxes, cache=cache),
                    Script(*map(command, (*script, "submit")), wait=wait * (number % 3)),
                    attempt_of(f"t/{number}", task=task),
                )
                for number, script in enumerate(SCRIPTS * 2)
            ]
            return list(await asyncio.gather(*jobs)) if at_once else [await job for job in jobs]
        finally:
            await boxes.close()

    return asyncio.run(go())


def test_the_same_attempts_are_the_same_idle_under_load_and_on_a_host_with_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"a.py": "x = 1\n", "src/b.py": "", "test_a.py": "from a import x\n\ndef test_x():\n    assert x == 1\n"}
    files["pytest.ini"] = f"[pytest]\n{QUIET}"  # else it tells how long the tests took
    task = a_task("t", repository=a_repository(tmp_path, files))
    idle = taken(task, at_once=False, wait=0.0)
    with beside(2 * (os.cpu_count() or 1)):
        loaded = taken(task, at_once=True, wait=0.05)
    more = tmp_path / "bin"
    more.mkdir()
    (more / "xdg-open").write_text("#!/bin/sh\necho opened\n")
    (more / "xdg-open").chmod(0o755)
    monkeypatch.setattr(programs, "_FOLDERS", (str(more), *programs._FOLDERS))
    elsewhere = taken(task, at_once=True, wait=0.0)
    for others in (loaded, elsewhere):
        for one, other in zip(idle, others, strict=True):
            assert [turn.observation.content for turn in one.turns] == [turn.observation.content for turn in other.turns]
            assert [turn.state for turn in one.turns] == [turn.state for turn in other.turns]
            assert one.submission == other.submission
