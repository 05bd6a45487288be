"""Sandboxes and a grader for a program that has its own threads or its own event loop: here they have a loop in a thread of theirs."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from patchgrad.contracts import RewardFunction, Tool
from patchgrad.errors import SandboxFault, SandboxLost
from patchgrad.grading import Grader
from patchgrad.grading.rewards import FunctionReward, Resolved
from patchgrad.recipes.recipe import SandboxChoice
from patchgrad.rollouts.environment import Environment
from patchgrad.rollouts.journals import NullJournal
from patchgrad.runs.build.harness import sandboxes
from patchgrad.values import Call, Observation, Reward, Stop, Task, ToolState, Trajectory, Verdict

T = TypeVar("T")


class Desk:
    """Sandboxes of a choice, and one grader over them. `begin` does not wait, `wait` does, and both may be called from any thread.

    It is closed when the program ends, or before by `close`; what it has opened ends with it.
    """

    def __init__(self, choice: SandboxChoice) -> None:
        self.choice = choice
        self.sandboxes = sandboxes(choice)
        self.grader = Grader(self.sandboxes)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="patchgrad", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """What comes of it, later; `asyncio.wrap_future` waits for that on another loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of it."""
        return self.begin(work).result()

    def close(self) -> None:
        """Ends all sandboxes, and the thread; nothing is asked of the desk afterwards."""
        atexit.unregister(self._at_exit)
        if self._loop.is_closed():
            return
        self.wait(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _ended(self) -> None:
        """Closes the sandboxes, then ends whatever still waits for one of them, such as a verdict that nobody asks for."""
        await self.sandboxes.close()
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def _at_exit(self) -> None:
        """Python starts no threads any more when a program ends, and sandboxes ask for some when they close."""
        self._loop.set_default_executor(_Here())
        self.close()


class _Here(ThreadPoolExecutor):
    """Does at once, in the thread that asks, what is to be done in another one."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Done when it returns."""
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


def reward_of(given: Callable[..., object] | None) -> RewardFunction:
    """A user's function or a reward of ours as one that says what is wrong with it; without one the hidden tests decide."""
    return Resolved() if given is None else FunctionReward(given)


class Visit:
    """One attempt of another program's at a task: calls, one submission, one verdict.

    All of it runs on the desk's loop. A sandbox that breaks is no judgement of the attempt: `fault` says what broke.
    """

    def __init__(self, desk: Desk, task: Task, tools: Mapping[str, Tool]) -> None:
        self.task, self.name = task, f"guest/{task.id}/{uuid.uuid4().hex[:12]}"
        self.submission: str | None = None
        self.fault = ""
        self._desk, self._state, self._base = desk, ToolState(), ""
        self._stop: Stop = "turn limit"
        self._began = time.monotonic()
        self._environment = Environment(task, tools, desk.sandboxes, NullJournal(), None)

    async def begin(self) -> None:
        """Opens the sandbox."""
        try:
            self._base = await self._environment.begin()
        except SandboxFault as error:
            await self._broken(error)

    async def call(self, tool: str, arguments: str) -> Observation:
        """What the tool answers; after the end of the attempt, that it is over."""
        if self.fault or self.submission is not None:
            return Observation("The attempt is over.", self._state, failure="unknown tool")
        try:
            observation = await self._environment.call(Call(tool, arguments), self._state)
        except SandboxLost as error:
            await self.end("sandbox lost")
            return Observation(str(error), self._state, failure="sandbox lost")
        except SandboxFault as error:
            await self._broken(error)
            return Observation(str(error), self._state, failure="infrastructure")
        self._state = observation.tool_state
        return observation

    async def end(self, stop: Stop) -> None:
        """Takes what the attempt has made of the repository as its submission, and closes the sandbox. A second end changes nothing."""
        if self.submission is not None or self.fault:
            return
        try:
            self.submission = "" if stop == "sandbox lost" else await self._environment.submission(self._base)
            self._stop = stop
        except SandboxLost:
            self.submission, self._stop = "", "sandbox lost"
        except SandboxFault as error:
            await self._broken(error)
        await self._environment.close()

    async def graded(self) -> tuple[Trajectory, Verdict]:
        """The attempt and its verdict; one that was not ended by then ran into a limit of the program's."""
        await self.end("turn limit")
        seconds = time.monotonic() - self._began
        submission = self.submission or ""
        done = Trajectory(self.name, self.task.id, (), "failed" if self.fault else self._stop, submission, seconds)
        if self.fault:
            return done, Verdict(self.task.id, "", (), (), fault=self.fault)
        verdict = await self._desk.grader.grade(self.task, submission)
        self.fault = verdict.fault or ""
        return done, verdict

    async def rewarded(self, reward: RewardFunction) -> Reward | None:
        """What the attempt is worth; nothing where infrastructure broke."""
        done, verdict = await self.graded()
        return None if self.fault else reward(self.task, done, verdict, ())

    async def close(self) -> None:
        """Closes the sandbox of an attempt that nobody goes on with."""
        with suppress(SandboxFault):
            await self._environment.close()

    async def _broken(self, error: SandboxFault) -> None:
        self.fault = str(error) or type(error).__name__
        await self.close()
