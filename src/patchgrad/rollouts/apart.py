"""A harness under which a task that cannot be opened or graded breaks the attempts at it, and those at others go on.

A run is not made so: training on a part of its tasks would be another run. An evaluation is; it says which tasks it could not measure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from patchgrad.contracts import Capabilities, Sandbox, Sandboxes
from patchgrad.errors import Refuse, SandboxFault, TaskError
from patchgrad.rollouts.harness import Harness
from patchgrad.values import Snapshot, Task, Verdict, digest


def each_apart(harness: Harness, refuse: Refuse) -> Harness:
    """The same, where what is wrong with a task goes to `refuse`; where that goes on, its attempts are broken."""

    async def grade(task: Task, patch: str) -> Verdict:
        return await _graded(harness.grade, task, patch, refuse)

    return replace(harness, sandboxes=_Apart(harness.sandboxes, refuse), grade=grade)


async def _graded(grade: Callable[[Task, str], Awaitable[Verdict]], task: Task, patch: str, refuse: Refuse) -> Verdict:
    try:
        return await grade(task, patch)
    except TaskError as error:
        refuse(error)
        return Verdict(task.id, digest(patch), (), (), fault=str(error))


class _Apart:
    """Sandboxes of a backend."""

    def __init__(self, own: Sandboxes, refuse: Refuse) -> None:
        self._own, self._refuse = own, refuse

    def probe(self) -> Capabilities:
        return self._own.probe()

    async def open(self, task: Task, state: Snapshot | None = None) -> Sandbox:
        try:
            return await self._own.open(task, state)
        except TaskError as error:
            self._refuse(error)
            raise SandboxFault(str(error)) from error

    async def close(self) -> None:
        await self._own.close()
