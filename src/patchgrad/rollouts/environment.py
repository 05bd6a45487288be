"""What an attempt acts on: the files of its task, in a sandbox that is opened when something has to be run.

    begin | resume  ->  call, call, call ...  ->  submission

With a tool cache, a call whose answer the files alone decide is not run where another attempt ran it in the same state. A sandbox is opened
when something has to be run, in the state that the attempt is in by then. A call that the files do not decide ends that: from then on the
attempt runs everything itself.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from patchgrad.contracts import Journal, Sandbox, Sandboxes, Tool, patience
from patchgrad.errors import ProvenanceError, SandboxFault
from patchgrad.rollouts.deadline import within
from patchgrad.rollouts.repository import commit, difference
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.values import Call, Malformed, Observation, Snapshot, Task, ToolState, Turn
from patchgrad.waiting import waiting_for

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Opened:
    """A sandbox, and the files that it holds; they are others than the attempt's where its last answer came from the cache."""

    sandbox: Sandbox
    files: Snapshot


class Environment:
    """The sandbox side of one attempt. `state` is the address of the files as they are; the journal keeps every state.

    `lost` names what the last answer told the agent that it has lost (`Turn.lost`).
    """

    def __init__(self, task: Task, tools: Mapping[str, Tool], sandboxes: Sandboxes, journal: Journal, cache: ToolCache | None) -> None:
        self._task, self._tools, self._sandboxes, self._journal, self._cache = task, tools, sandboxes, journal, cache
        self._digest = task.environment_digest()
        self._files = Snapshot.of({})
        self._opened: _Opened | None = None
        self._alone = cache is None
        self._missing: tuple[str, ...] = ()
        self.state = ""
        self.lost: tuple[str, ...] = ()

    @property
    def shell(self) -> str:
        """What was made of the shell, as a script."""
        return self._files.shell

    @property
    def loose(self) -> tuple[str, ...]:
        """What is there and in no state."""
        return self._files.loose

    async def begin(self) -> str:
        """The commit of the repository, in whose first state the attempt is then."""

        async def ask() -> tuple[str, Snapshot]:
            return await commit(await self._sandbox()), await self._snapshot()

        (base, first), _ = await (self._cache or ToolCache()).get(("beginning", self._digest), ask, lambda _: True)
        await self._arrive(first)
        return base

    async def resume(self, turns: Sequence[Turn], base: str) -> str:
        """The same where turns were taken: the attempt is in the state that the last one left, and so is its shell.

        What was loose then is gone, and the next answer says so.
        `base` is the repository's own commit, since an agent may have committed in those turns. Raises `ProvenanceError` where the sandbox
        is in another state.
        """
        last = turns[-1]
        directory = last.observation.tool_state.directory
        kept = await self._journal.snapshot(last.state, directory) if self._journal.keeps else self._files
        self._files = replace(kept, directory=directory, shell=last.shell, loose=())
        self._missing = last.loose
        self._alone |= not all(self._repeatable(turn.call, turn.observation) for turn in turns)
        await self._arrive(await self._snapshot(), last.observation.tool_state)
        if self.state != last.state:
            raise ProvenanceError("it cannot go on: its sandbox was not opened in the state that its last turn left", "state")
        return base

    async def call(self, call: Call | Malformed, state: ToolState) -> Observation:
        """What the environment answers, after what the agent has to know of its sandbox.

        Raises `SandboxFault` where the sandbox broke in it, and `SandboxLost` where what the call left is no state: the attempt is then
        still in the one before.
        """
        answer = await self._answer(call, state)
        self.lost, self._missing = self._missing, ()
        return replace(answer, content=f"{told(self.lost)}{answer.content}") if self.lost else answer

    async def _answer(self, call: Call | Malformed, state: ToolState) -> Observation:
        if isinstance(call, Malformed):
            return Observation(call.message, state, failure="malformed")
        tool = self._tools.get(call.tool)
        if tool is None:
            return Observation(f"There is no tool {call.tool}.", state, failure="unknown tool")
        started = time.monotonic()
        key = ("call", self._digest, self.state, self.shell, state, call)
        self._alone |= not tool.repeatable(call.arguments, None)
        with waiting_for("tools"):
            (observation, left), known = await self._cached(
                key, lambda: self._run(tool, call, state), lambda a: self._repeatable(call, a[0]), lambda a: _held(a[1])
            )
        await self._arrive(left, observation.tool_state)
        self._alone |= not self._repeatable(call, observation)
        return replace(observation, seconds=0.0 if known else time.monotonic() - started)

    async def inside(self) -> Sandbox:
        """The sandbox, for who acts in it outside of calls: nothing is asked of the cache any more."""
        self._alone = True
        return await self._sandbox()

    async def submission(self, base: str) -> str:
        """What the attempt has made of the repository, as a patch against its first commit; empty where nothing changed.

        `SandboxLost` where the files have become no state since the last call.
        """
        if self._alone:
            await self._arrive(await self._snapshot())  # what it left running may have changed files since
        if not any(path.split("/")[0] != ".git" for path in self._files.entries):
            return ""

        async def ask() -> str:
            return await difference(await self._sandbox(), base, self._task.limits.test_seconds)

        return (await self._cached(("submission", self._digest, base, self.state), ask, lambda _: True))[0]

    async def close(self) -> None:
        """Closes the sandbox; what the attempt did stands, even if that breaks on the way out."""
        if self._opened is not None:
            with suppress(SandboxFault):
                await self._opened.sandbox.close()
        self._opened = None

    async def _run(self, tool: Tool, call: Call, state: ToolState) -> tuple[Observation, Snapshot]:
        """What the tool says in the state that the attempt is in, and the state that it leaves."""
        sandbox = await self._sandbox()
        async with within(self._task.limits.command_seconds, f"the tool {call.tool}"):
            began = time.monotonic()
            observation = await tool(call.arguments, sandbox, state)
            observation = replace(observation, seconds=time.monotonic() - began)
        return observation, self._files if tool.reads_only else await self._snapshot()

    def _repeatable(self, call: Call | Malformed, observation: Observation) -> bool:
        """Did the files alone decide this answer? Not if it went elsewhere or ran out of time, unless that was time of its own work."""
        if isinstance(call, Malformed):
            return True
        tool, file = self._tools.get(call.tool), observation.tool_state.file
        inside = file is None or file.startswith(f"{ToolState().directory}/")
        worked = self._cache is not None and self._cache.timeouts and observation.seconds < patience(self._task.limits.command_seconds)
        ended = observation.failure in (None, "bad arguments") or (observation.failure == "timeout" and worked)
        return tool is not None and inside and ended and tool.repeatable(call.arguments, observation)

    async def _cached(
        self, key: tuple[object, ...], ask: Callable[[], Awaitable[T]], keep: Callable[[T], bool], size: Callable[[T], int] = lambda _: 0
    ) -> tuple[T, bool]:
        """What another attempt was answered, or an own answer.

        An attempt that others wait for has its sandbox: those who wait keep theirs, and there may be no room for another.
        """
        if self._cache is None or self._alone:
            return await ask(), False
        if key not in self._cache:
            await self._sandbox()
        return await self._cache.get(key, ask, keep, size)

    async def _sandbox(self) -> Sandbox:
        """The sandbox, in the state that the attempt is in; opened where there is none yet, or one in another state."""
        if self._opened is None or _state(self._opened.files) != _state(self._files):
            await self.close()
            with waiting_for("sandboxes"):
                self._opened = _Opened(await self._sandboxes.open(self._task, self._files), self._files)
        return self._opened.sandbox

    async def _snapshot(self) -> Snapshot:
        sandbox = await self._sandbox()
        async with within(self._task.limits.command_seconds, "a snapshot"):
            files = await sandbox.snapshot()
        self._opened = _Opened(sandbox, files)
        return files

    async def _arrive(self, left: Snapshot, state: ToolState | None = None) -> None:
        """The attempt is in this state from now on, its shell where the tool state says."""
        self._files = left if state is None else replace(left, directory=state.directory)
        if left.address != self.state:
            self.state = left.address
            await self._journal.state(left)


def told(lost: Sequence[str]) -> str:
    """The line that an answer begins with where an attempt has lost something: nothing where it has not."""
    return f"[The sandbox was opened anew, and what was outside of the repository is gone: {', '.join(lost)}.]\n" if lost else ""


def _state(files: Snapshot) -> tuple[str, str]:
    return files.address, files.shell


def _held(files: Snapshot) -> int:
    return sum(len(content or b"") for _, content in files.entries.values())
