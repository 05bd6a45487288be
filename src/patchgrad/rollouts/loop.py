"""One task, one trajectory: the only place where an agent meets an environment.

    prompt -> encode -> room left? -> act -> parse -> call -> snapshot -> Turn, until Finish or a limit

It ends in a `Trajectory` whatever happens: a broken sandbox or policy makes `stop == "failed"`, which credit drops.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np

from patchgrad.contracts import Agent, Extend, Finish, Policy, Restart, Sandbox, Sandboxes, Tool, patience
from patchgrad.errors import ContextFault, PolicyFault, ProvenanceError, SandboxFault
from patchgrad.rollouts.budget import Budget
from patchgrad.rollouts.repository import commit, difference, within
from patchgrad.rollouts.tool_cache import Answers
from patchgrad.values import (
    NO_IDS,
    Action,
    Call,
    Ids,
    Malformed,
    Message,
    Observation,
    Sampling,
    Segment,
    Snapshot,
    Stop,
    Task,
    ToolState,
    Trajectory,
    Turn,
    digest,
    ids,
    root_address,
)

T = TypeVar("T")
log = logging.getLogger(__name__)

_KILLED = re.compile(r"^\S*bash: line \d+: +\d+ Killed\b", re.MULTILINE)


async def rollout(
    task: Task,
    agent: Agent,
    policy: Policy,
    sandboxes: Sandboxes,
    budget: Budget,
    *,
    attempt_id: str,
    seed: int,
    on_turn: Callable[[Turn], None] | None = None,
    on_state: Callable[[Snapshot], None] | None = None,
    sampling: Sampling | None = None,
    history: Sequence[Segment] = (),
    state: Snapshot | None = None,
    base: str = "",
    answers: Answers | None = None,
) -> Trajectory:
    """Let the agent work on the task in a sandbox until it submits or a limit is reached.

    `on_turn` is called once for each new turn, `on_state` before it for each new state: together they are a journal. `sampling`
    shapes the distribution, in evaluations (its seed and length are replaced). The same seed, id and answers give the same turns.

    `history` resumes or forks: turns that were already taken, and the `state` that the last one left. An agent may have committed in them,
    so `base` then names the repository's own commit, which `commit` reads from a fresh sandbox.

    With `answers`, calls whose answer the files alone settle are not run where another attempt ran them in the same state: a sandbox is
    opened when something has to be run, in the state that the attempt is in by then. A call that the files do not settle ends that.
    """
    episode = _Episode(task, agent, policy, sandboxes, budget, attempt_id, seed, on_turn, on_state, sampling, history, answers)
    try:
        return await episode.play(state, base)
    finally:
        episode.release()
        await episode.leave()


class _Episode:
    """The growing state of one attempt; nothing outlives `play`."""

    def __init__(
        self,
        task: Task,
        agent: Agent,
        policy: Policy,
        sandboxes: Sandboxes,
        budget: Budget,
        attempt_id: str,
        seed: int,
        on_turn: Callable[[Turn], None] | None,
        on_state: Callable[[Snapshot], None] | None,
        sampling: Sampling | None,
        history: Sequence[Segment],
        answers: Answers | None,
    ) -> None:
        self.task, self.agent, self.policy, self.sandboxes, self.budget = task, agent, policy, sandboxes, budget
        self.id, self.seed = attempt_id, seed
        self.on_turn, self.on_state = on_turn, on_state
        self.sampling = sampling or Sampling(1, 0)
        self.segments: list[list[Turn]] = [list(segment.turns) for segment in history if segment.turns]
        self.turns: list[Turn] = [turn for segment in self.segments for turn in segment]
        self.stream: Ids = Segment(tuple(self.segments[-1])).tokens() if self.segments else NO_IDS
        self.limit = min(budget.context, policy.context)
        self.started = time.monotonic()
        self.waited = 0.0  # seconds, for the policy's answers
        self.session = ""
        self.state = ""
        self.left = Snapshot.of({})
        self.sandbox: Sandbox | None = None
        self.there = self.left  # the state that the sandbox is in; another than `self.left` when that was only heard of
        self.answers, self.environment = answers, task.environment_digest()
        self.timeouts = answers is not None and answers.timeouts
        self.alone = answers is None or not all(self._settled(turn.call, turn.observation) for turn in self.turns)

    def release(self) -> None:
        if self.session:
            self.policy.release(self.session)

    async def leave(self) -> None:
        """Closes the sandbox; what the attempt did stands, even if that breaks on the way out."""
        if self.sandbox is not None:
            with suppress(SandboxFault):
                await self.sandbox.close()
        self.sandbox = None

    async def play(self, state: Snapshot | None, base: str) -> Trajectory:
        submission = ""
        try:
            base = await (self._go_on(state, base) if self.turns else self._begin())
            stop = await self._turns()
            if stop != "failed":
                submission = await self._submission(base)
        except SandboxFault as fault:
            log.warning("%s: %s", self.id, fault)
            stop = "failed"
        segments = tuple(Segment(tuple(segment)) for segment in self.segments if segment)
        return Trajectory(self.id, self.task.id, segments, stop, submission, time.monotonic() - self.started)

    async def _begin(self) -> str:
        """The commit of the repository, in whose first state the attempt is then."""

        async def ask() -> tuple[str, Snapshot]:
            return await commit(await self._sandbox_here()), await self._snapshot()

        (base, first), _ = await (self.answers or Answers()).once(("beginning", self.environment), ask, lambda _: True)
        self._arrive(first)
        return base

    async def _go_on(self, state: Snapshot | None, base: str) -> str:
        """The same where turns were taken: the attempt is in the state that the last one left."""
        self.left = state or self.left
        base = base or await commit(await self._sandbox_here())
        self._arrive(await self._snapshot())
        if self.state != self.turns[-1].state:
            raise ProvenanceError(f"{self.id} cannot go on: its sandbox was not opened in the state that its last turn left.", "state")
        return base

    async def _turns(self) -> Stop:
        deadline = time.monotonic() + self.budget.seconds  # the wait for a first sandbox is not the attempt's
        while True:
            step = self.agent.prompt(self.task.instruction, tuple(self.turns))
            if isinstance(step, Finish):
                return step.stop
            if len(self.turns) >= self.budget.turns:
                return "turn limit"
            if self._lost():
                return "format errors"
            context = self._encode(step)
            room = self.limit - self._used() - len(context)
            if room < 1:
                return "context limit"
            left = deadline - time.monotonic()
            if left <= 0:
                return self._out_of_time()
            try:
                async with asyncio.timeout(left):
                    action = await self._act(np.concatenate([self.stream, context]), room)
            except TimeoutError:
                return self._out_of_time()
            except ContextFault:
                return "context limit"
            except PolicyFault as fault:
                log.warning("%s: %s", self.id, fault)
                return "failed"
            if not await self._answer(context, action):
                return "failed"

    def _out_of_time(self) -> Stop:
        """Time that went by with waiting for the policy is none that the agent took: where that was most of it, its server failed."""
        return "failed" if self.waited > self.budget.seconds / 2 else "time limit"

    def _used(self) -> int:
        """The tokens of the stream so far, as the server counted them where the ids only spell it."""
        last = self.segments[-1][-1].action.usage if self.segments[-1] else None
        return len(self.stream) if last is None else last.prompt + last.completion

    def _lost(self) -> bool:
        last = self.turns[-self.budget.format_errors :] if self.budget.format_errors else []
        return 0 < len(last) == self.budget.format_errors and all(turn.observation.failure == "malformed" for turn in last)

    def _encode(self, step: Extend | Restart) -> Ids:
        """The ids that the step adds; a restart, and the first step, open a segment and with it a policy session."""
        fresh = isinstance(step, Restart) or not self.segments
        if fresh:
            self.segments.append([])
            self.stream = NO_IDS
        if fresh or not self.session:
            self.release()
            self.session = f"{self.id}#{len(self.segments) - 1}"
        messages: tuple[Message, ...] = step.messages
        previous = None if fresh else self.segments[-1][-1].action
        return ids(self.policy.encode(messages, previous))

    async def _act(self, tokens: Ids, room: int) -> Action:
        seed = int(digest(str(self.seed), self.id, str(len(self.turns)))[:15], 16)
        sampling = replace(self.sampling, seed=seed, max_tokens=min(self.budget.action_tokens, room))
        tokens.setflags(write=False)
        began = time.monotonic()
        try:
            return await self.policy.act(self.session, tokens, sampling)
        finally:
            self.waited += time.monotonic() - began

    async def _answer(self, context: Ids, action: Action) -> bool:
        """Run the action's call and seal the turn; False when the sandbox broke in it."""
        call = self.agent.parse(action.text)
        tool_state = self.turns[-1].observation.tool_state if self.turns else ToolState()
        try:
            observation = await self._call(call, tool_state)
        except SandboxFault as fault:
            log.warning("%s: %s", self.id, fault)
            observation = Observation(str(fault), tool_state, failure="infrastructure")
        parent = self.turns[-1].address if self.turns else root_address(self.task, self.id)
        turn = Turn(context, action, call, observation, self.state, parent)
        self.turns.append(turn)
        self.segments[-1].append(turn)
        self.stream = np.concatenate([self.stream, context, action.token_ids])
        if self.on_turn is not None:
            self.on_turn(turn)
        return observation.failure != "infrastructure"

    async def _call(self, call: Call | Malformed, tool_state: ToolState) -> Observation:
        if isinstance(call, Malformed):
            return Observation(call.message, tool_state, failure="malformed")
        tool = self.agent.tools.get(call.tool)
        if tool is None:
            return Observation(f"There is no tool {call.tool}.", tool_state, failure="unknown tool")
        started = time.monotonic()
        question = ("call", self.environment, self.state, tool_state, call)
        self.alone |= not self._by_files(call)
        (observation, left), known = await self._once(
            question, lambda: self._run(tool, call, tool_state), lambda a: self._settled(call, a[0])
        )
        self._arrive(left)
        self.alone |= not self._settled(call, observation)
        return replace(observation, seconds=0.0 if known else time.monotonic() - started)

    async def _run(self, tool: Tool, call: Call, tool_state: ToolState) -> tuple[Observation, Snapshot]:
        """What the tool says in the state that the attempt is in, and the state that it leaves."""
        sandbox = await self._sandbox_here()
        async with within(self.task.limits.command_seconds, f"the tool {call.tool}"):
            began = time.monotonic()
            observation = await tool(call.arguments, sandbox, tool_state)
            observation = replace(observation, seconds=time.monotonic() - began)
        return observation, self.left if getattr(tool, "reads_only", False) else await self._snapshot()

    def _by_files(self, call: Call) -> bool:
        """Do the repository's files, and where the agent stands in them, settle what the call says and leaves?"""
        settled = getattr(self.agent.tools.get(call.tool), "settled", None)
        return settled is not None and bool(settled(call.arguments))

    def _settled(self, call: Call | Malformed, observation: Observation) -> bool:
        """Did they? Not if it was killed or went elsewhere, nor if it ran out of time, unless that was time of its own work."""
        if isinstance(call, Malformed):
            return True
        inside = observation.tool_state.file is None or observation.tool_state.file.startswith(f"{ToolState().directory}/")
        worked = self.timeouts and observation.seconds < patience(self.task.limits.command_seconds)
        ended = observation.failure in (None, "bad arguments") or (observation.failure == "timeout" and worked)
        whole = ended and _KILLED.search(observation.content) is None
        return self._by_files(call) and inside and whole

    async def _once(self, question: tuple[object, ...], ask: Callable[[], Awaitable[T]], keep: Callable[[T], bool]) -> tuple[T, bool]:
        """What another attempt was answered, or an own answer.

        Who is waited for has its sandbox: those who wait keep theirs, and there may be no room for another.
        """
        if self.answers is None or self.alone:
            return await ask(), False
        if question not in self.answers:
            await self._sandbox_here()
        return await self.answers.once(question, ask, keep)

    async def _sandbox_here(self) -> Sandbox:
        """The sandbox, in the state that the attempt is in; opened where there is none yet, or one in another state."""
        if self.sandbox is None or self.there.address != self.left.address:
            await self.leave()
            tool_state = self.turns[-1].observation.tool_state if self.turns else ToolState()
            self.sandbox = await self.sandboxes.open(self.task, replace(self.left, directory=tool_state.directory))
            self.there = self.left
        return self.sandbox

    async def _snapshot(self) -> Snapshot:
        sandbox = await self._sandbox_here()
        async with within(self.task.limits.command_seconds, "a snapshot"):
            self.there = await sandbox.snapshot()
        return self.there

    def _arrive(self, left: Snapshot) -> None:
        self.left = left
        if left.address != self.state:
            self.state = left.address
            if self.on_state is not None:
                self.on_state(left)

    async def _submission(self, base: str) -> str:
        if self.alone:
            self._arrive(await self._snapshot())  # what it left running may have changed files since
        if not any(path.split("/")[0] != ".git" for path in self.left.entries):
            return ""

        async def ask() -> str:
            return await difference(await self._sandbox_here(), base, self.task.limits.test_seconds)

        return (await self._once(("submission", self.environment, base, self.state), ask, lambda _: True))[0]
