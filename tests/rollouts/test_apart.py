"""A task that cannot be opened or graded breaks the attempts at it, is told, and takes no other task with it; a run stops at it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.learning.test_provenance import harness, judged, tasks, worth
from tests.rollouts.process_hosts import ProcessHosts
from tests.rollouts.test_attempts import SCRIPT, attempt

from patchgrad.contracts import Sandboxes, Tokenizer
from patchgrad.errors import Refused, TaskError
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.rollouts.apart import each_apart
from patchgrad.rollouts.attempts import given_up, kin, run_attempts
from patchgrad.rollouts.executors.hosts.executor import HostsExecutor
from patchgrad.rollouts.harness import Harness
from patchgrad.store import Run
from patchgrad.testing.sandbox_double import LocalSandbox, LocalSandboxes
from patchgrad.values import Rollout, Snapshot, Task, Verdict


class Picky(LocalSandboxes):
    """Opens no sandbox for a task whose statement is empty."""

    async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
        if not task.instruction:
            raise TaskError(f"task {task.id!r}: its archive is gone")
        return await super().open(task, state)


async def picky(task: Task, patch: str) -> Verdict:
    if task.instruction == "ungradable":
        raise TaskError(f"Task {task.id}: its hidden tests do not fit")
    return await judged(task, patch)


def attempted(given: Harness, tmp_path: Path) -> list[Rollout]:
    (task, _) = tasks(tmp_path)
    items = [
        attempt(replace(task, id=name, instruction=words), f"{name}/0")
        for name, words in (("good", "Mend it."), ("gone", ""), ("odd", "ungradable"))
    ]

    async def made() -> list[Rollout]:
        try:
            return await run_attempts(given, ScriptedPolicy(SCRIPT), items, worth)
        finally:
            await given.executor.close()

    return asyncio.run(made())


@pytest.fixture(params=["here", "on other machines"])
def given(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Harness]:
    """With attempts in this process, or in those of two hosts."""
    with Run.create(tmp_path / "run", "") as run:
        own = replace(harness(run), sandboxes=Picky(), grade=picky)
        if request.param == "here":
            yield own
        else:
            yield replace(own, executor=HostsExecutor(ProcessHosts(2), 4, given_up=given_up, kin=kin, kept=(Sandboxes, Tokenizer)))


def test_attempts_at_other_tasks_get_their_verdicts(given: Harness, tmp_path: Path) -> None:
    refused = Refused()
    made = attempted(each_apart(given, refused), tmp_path)
    assert [one.broken for one in made] == [False, True, True]
    assert set(refused.sentences) == {"task 'gone': its archive is gone", "Task odd: its hidden tests do not fit"}
    assert made[2].verdict.fault == "Task odd: its hidden tests do not fit"


def test_who_wants_all_or_nothing_is_stopped(given: Harness, tmp_path: Path) -> None:
    def stop(error: Exception) -> None:
        raise error

    with pytest.raises(TaskError, match=r"its archive is gone|do not fit"):
        attempted(each_apart(given, stop), tmp_path)
