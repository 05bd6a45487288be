"""A user's function as a judge."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from patchgrad.errors import SandboxFault
from patchgrad.functions import calling, finite, is_async, named, requires, watched
from patchgrad.values import Judgement, Task, Trajectory, Verdict

WANTED = "a number or a Judgement"


@dataclass(frozen=True, slots=True)
class FunctionJudge:
    """What a function of `(task, trajectory, verdict)` finds of a finished attempt: a number, or a `Judgement`.

        def length(task, trajectory, verdict):
            return len(trajectory.turns)

        await FunctionJudge(length)(task, trajectory, verdict)     # Judgement("length", 7.0, seconds=0.0)

    A plain function gets a thread of its own, so it may take long; one with `async` is awaited. Without an answer after `seconds` the
    attempt ends as a failure of infrastructure (`SandboxFault`). Raises `ComponentError` for other arguments, and for one that fails.
    """

    function: Callable[..., object]
    seconds: float = 600.0

    def __post_init__(self) -> None:
        requires(self.function, "judge", (3,), "task, trajectory, verdict")

    async def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict) -> Judgement:
        began, name = time.monotonic(), named(self.function)
        try:
            async with asyncio.timeout(self.seconds):
                with calling("judge", self.function, trajectory.id):
                    found = await self._asked(task, trajectory, verdict)
        except TimeoutError:
            raise SandboxFault(f"the judge {name} gave no judgement of {trajectory.id} within {self.seconds:.0f} seconds") from None
        took = time.monotonic() - began
        if not isinstance(found, Judgement):
            return Judgement(name, finite("judge", self.function, found, WANTED, trajectory.id), seconds=took)
        for number in (found.score, *found.parts.values()):
            finite("judge", self.function, number, WANTED, trajectory.id)
        return found if found.seconds else replace(found, seconds=took)

    async def _asked(self, task: Task, trajectory: Trajectory, verdict: Verdict) -> object:
        if is_async(self.function):
            found = self.function(task, trajectory, verdict)
        else:
            found = await asyncio.to_thread(self.function, task, trajectory, verdict)
        return await watched(found, "judge", self.function) if inspect.iscoroutine(found) else found
