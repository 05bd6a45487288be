"""A harness under which a task that cannot be opened or graded breaks the attempts at it, and those at others go on.

A run is not made so: training on a part of its tasks would be another run. An evaluation is; it says which tasks it could not measure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from patchgrad.contracts import Capabilities, Sandbox, Sandboxes
from patchgrad.errors import Refusals, Refuse, SandboxFault, TaskError
from patchgrad.rollouts.harness import Harness
from patchgrad.values import Snapshot, Task, Verdict, digest


def each_apart(harness: Harness, refuse: Refuse) -> Harness:
    """The same, where what is wrong with a task goes to `refuse`; where that goes on, its attempts are broken.

    `refuse` stays where it is, also where attempts are made on other machines.
    """
    refusals = Refusals(refuse)
    return replace(harness, sandboxes=_Apart(harness.sandboxes, refusals), grade=_Graded(harness.grade, refusals))


@dataclass(frozen=True, slots=True)
class _Graded:
    own: Callable[[Task, str], Awaitable[Verdict]]
    refusals: Refusals

    async def __call__(self, task: Task, patch: str) -> Verdict:
        try:
            return await self.own(task, patch)
        except TaskError as error:
            await self.refusals.refused(error)
            return Verdict(task.id, digest(patch), (), (), fault=str(error))


@dataclass(frozen=True, slots=True)
class _Apart:
    """Sandboxes of a backend."""

    own: Sandboxes
    refusals: Refusals

    def probe(self) -> Capabilities:
        return self.own.probe()

    async def open(self, task: Task, state: Snapshot | None = None) -> Sandbox:
        try:
            return await self.own.open(task, state)
        except TaskError as error:
            await self.refusals.refused(error)
            raise SandboxFault(str(error)) from error

    async def close(self) -> None:
        await self.own.close()
