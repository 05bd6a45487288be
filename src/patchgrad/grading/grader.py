"""Verdicts that are remembered, and held against broken tests where the solution of a task is known.

A verdict is a pure function of the task and the patch: in reinforcement learning most attempts at a task end in one of a few patches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from patchgrad.contracts import Sandboxes
from patchgrad.errors import SandboxFault, SandboxLost
from patchgrad.grading.canaries import Canaries
from patchgrad.grading.grade import grade
from patchgrad.values import Task, Verdict, digest


class Grader:
    """Grades each (task, patch) once, however many attempts end in it and however many ask at the same time.

    `await Grader(sandboxes).grade(task, patch)`. A verdict with a fault is given to those who waited for it and then forgotten.
    `solutions` are patches by the id of the task that they solve: with one, an attempt that would be resolved is run against broken
    tests as well (`Canaries`).
    """

    def __init__(self, sandboxes: Sandboxes, solutions: Mapping[str, str] = MappingProxyType({})) -> None:
        self.sandboxes, self._solutions = sandboxes, solutions
        self._canaries = Canaries(sandboxes, solutions)
        self._known: dict[tuple[str, str, bool], Verdict] = {}
        self._running: dict[tuple[str, str, bool], asyncio.Task[Verdict]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """On another machine it is one that has graded nothing yet."""
        return Grader, (self.sandboxes, dict(self._solutions))

    async def grade(self, task: Task, submission: str, *, run_empty: bool = False) -> Verdict:
        """The verdict on a patch: see `grade`."""
        key = (task.digest(), digest(submission), run_empty)
        if key in self._known:
            return replace(self._known[key], task=task.id, seconds=0.0)
        running = self._running.get(key)
        if running is None:
            running = asyncio.create_task(self._judge(task, submission, run_empty))
            running.add_done_callback(lambda done: self._keep(key, done))
            self._running[key] = running
        return await asyncio.shield(running)  # one waiter that gives up must not take the verdict from the others

    async def _judge(self, task: Task, submission: str, run_empty: bool) -> Verdict:
        verdict = await grade(task, submission, self.sandboxes, run_empty=run_empty)
        if not verdict.resolved:
            return verdict
        try:
            return replace(verdict, tamper=await self._canaries.passed(task, submission))
        except SandboxLost as lost:
            return replace(verdict, tamper=(str(lost),))
        except SandboxFault as broken:
            return replace(verdict, fault=str(broken))

    def _keep(self, key: tuple[str, str, bool], done: asyncio.Task[Verdict]) -> None:
        self._running.pop(key, None)
        if not done.cancelled() and done.exception() is None and done.result().fault is None:
            self._known[key] = done.result()
