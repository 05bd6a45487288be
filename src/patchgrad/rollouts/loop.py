"""One attempt, one trajectory: the only place where an agent meets an environment.

    prompt -> encode -> room left? -> act -> parse -> call -> Turn, until Finish or a limit

It ends in a `Trajectory` whatever happens: a broken sandbox or policy makes `stop == "failed"`, which credit drops. What the agent itself
brought about makes `stop == "sandbox lost"`, which counts as any attempt that solved nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

import numpy as np

from patchgrad.contracts import Conversation, Extend, Finish, Policy, Program, Restart
from patchgrad.errors import (
    ComponentError,
    ContextFault,
    Fault,
    NotAccepted,
    PolicyFault,
    ProgramFault,
    ProvenanceError,
    SandboxFault,
    SandboxLost,
)
from patchgrad.rollouts.access import Access
from patchgrad.rollouts.conversations import conversing, go_on, segments_of
from patchgrad.rollouts.environment import Environment
from patchgrad.rollouts.harness import Workbench
from patchgrad.values import (
    NO_IDS,
    Action,
    Attempt,
    Call,
    Ids,
    Malformed,
    Observation,
    Segment,
    Stop,
    ToolState,
    Trajectory,
    Turn,
    digest,
    ids,
    repeated,
    root_address,
)
from patchgrad.waiting import waiting_for

log = logging.getLogger(__name__)
Parse = Callable[[str], Call | Malformed]


@dataclass(frozen=True, slots=True)
class Rolled:
    """An attempt, and what infrastructure broke in it, where that ended it."""

    trajectory: Trajectory
    fault: Fault | None = None


async def rollout(bench: Workbench, policy: Policy, attempt: Attempt, taken: Sequence[Turn] = (), began: float | None = None) -> Trajectory:
    """The attempt of `rolled`, whatever ended it."""
    return (await rolled(bench, policy, attempt, taken, began)).trajectory


async def rolled(
    bench: Workbench,
    policy: Policy,
    attempt: Attempt,
    taken: Sequence[Turn] = (),
    began: float | None = None,
    by_agent: bool = False,
) -> Rolled:
    """Let the agent work on a task in an environment of its own until it submits or a limit is reached.

    The journal gets each new turn once, and before it each new state. The same attempt and tool cache give the same turns.

    `taken` are turns that were taken already, a fork's prefix among them: the attempt goes on in the state that the last one left. It
    counts its seconds since `began`, a reading of `time.monotonic`, or since now. A sandbox that breaks after the first turn is a fault of
    infrastructure, unless it is known that the agent breaks it (`by_agent`).
    """
    began = time.monotonic() if began is None else began
    conversation = conversing(bench.agent, attempt.task.instruction)
    environment = Environment(attempt.task, conversation.tools, bench.sandboxes, bench.journal, bench.cache)
    dialogue = _Dialogue(attempt, bench.agent.parse, policy, segments_of(bench.agent, attempt.task, taken), by_agent)
    access = Access(attempt, policy, environment)
    submission = ""
    stop: Stop = "failed"
    broke: Fault | None = None
    try:
        base = await (environment.resume(taken, await bench.commit_of(attempt.task)) if taken else environment.begin())
        stop = await _turns(bench, dialogue, conversation, access)
        if stop not in ("failed", "sandbox lost"):
            submission = await environment.submission(base)
    except (SandboxFault, SandboxLost) as error:
        log.warning("%s: %s", attempt.id, error)
        stop = "sandbox lost" if dialogue.turns and dialogue.lost_by(error) else "failed"
        broke = error if isinstance(error, SandboxFault) else None
    except ProvenanceError as error:
        raise ProvenanceError(f"{attempt.id}: {error}.", error.fault) from error
    except ComponentError as error:
        raise ComponentError(f"{attempt.id}: {error}") from error
    except NotAccepted as error:
        if not isinstance(bench.agent, Program):  # else it is what one program asked, and not how the run was set up
            raise
        log.warning("%s: %s", attempt.id, error)
        dialogue.broke = ProgramFault(f"the program asks what the policy cannot read: {error}")
    finally:
        dialogue.release()
        await conversation.close()
        await environment.close()
    seconds = time.monotonic() - began
    replayed = len(attempt.prefix)
    done = Trajectory(attempt.id, attempt.task.id, dialogue.segments, stop, submission, seconds, attempt.origin, replayed, access.asides)
    return Rolled(done, (broke or dialogue.broke) if stop == "failed" else None)


async def _turns(bench: Workbench, dialogue: _Dialogue, conversation: Conversation, access: Access) -> Stop:
    """Turn after turn; why there is no other one."""
    deadline = time.monotonic() + dialogue.attempt.budget.seconds  # the wait for a first sandbox is not the attempt's
    again = isinstance(bench.agent, Program) and bool(dialogue.turns)  # another process of it has to be where this one was
    while True:
        if dialogue.turns and dialogue.turns[-1].observation.failure == "sandbox lost":
            return "sandbox lost"
        said = await _said(dialogue, conversation, access, deadline, again)
        if isinstance(said, str):
            return said
        context, action = said
        access.told = action, dialogue.read(context)
        turn = await _answered(dialogue, access.environment, context, action)
        await bench.journal.turn(dialogue.attempt.id, turn)
        dialogue.append(turn)
        if turn.observation.failure == "infrastructure":
            return "failed"
        again = False


async def _said(dialogue: _Dialogue, conversation: Conversation, access: Access, deadline: float, again: bool) -> tuple[Ids, Action] | Stop:
    """The ids that come next and what the policy says after them, or why it says nothing any more."""
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            if again:
                await go_on(conversation, access, dialogue.segments, dialogue.encoded)
            step = await conversation.prompt(tuple(dialogue.turns), access)
            if isinstance(step, Finish):
                return step.stop
            if stop := dialogue.over():
                return stop
            if time.monotonic() >= deadline:
                return dialogue.out_of_time(access.waited)
            return await dialogue.act(step)
    except TimeoutError:
        return dialogue.out_of_time(access.waited)
    except ContextFault:
        return "context limit"
    except (PolicyFault, ProgramFault) as fault:
        log.warning("%s: %s", dialogue.attempt.id, fault)
        dialogue.broke = fault
        return "failed"


def announced(step: Extend | Restart, last: int, left: int) -> Extend | Restart:
    """The step, which begins its last message with how many turns are left where these are among the `last` ones."""
    if left > last:
        return step
    *before, said = step.messages
    return replace(step, messages=(*before, replace(said, content=f"{turns_left(left)}\n{said.content}")))


def turns_left(count: int) -> str:
    """`1 turn is left.`"""
    return f"{count} turn{'s are' if count > 1 else ' is'} left."


def told_left(text: str) -> int | None:
    """How many turns a message begins by saying are left: `told_left(turns_left(2))` is 2; `None` where it says nothing of it."""
    said = text.partition("\n")[0]
    count = said.partition(" ")[0]
    return int(count) if count.isdecimal() and said == turns_left(int(count)) else None


async def _answered(dialogue: _Dialogue, environment: Environment, context: Ids, action: Action) -> Turn:
    """Run the action's call and seal the turn."""
    call, attempt, turns = dialogue.parse(action.text), dialogue.attempt, dialogue.turns
    state = turns[-1].observation.tool_state if turns else ToolState()
    try:
        observation = await environment.call(call, state)
    except (SandboxFault, SandboxLost) as error:
        log.warning("%s: %s", attempt.id, error)
        observation = Observation(str(error), state, failure="sandbox lost" if dialogue.lost_by(error) else "infrastructure")
        dialogue.broke = error if isinstance(error, SandboxFault) else None
    parent = turns[-1].address if turns else root_address(attempt.task, attempt.id)
    at = environment
    return Turn(context, action, call, observation, at.state, parent, at.shell, at.loose, at.lost)


class _Dialogue:
    """The token streams of one attempt as they grow, and the policy that goes on with them."""

    def __init__(self, attempt: Attempt, parse: Parse, policy: Policy, taken: Sequence[Segment], by_agent: bool) -> None:
        self.attempt, self.parse, self._policy, self._by_agent = attempt, parse, policy, by_agent
        self.broke: Fault | None = None
        self.turns = [turn for segment in taken for turn in segment.turns]
        self._begun = [len(segment.turns) for segment in taken]  # turns of each segment
        self._stream: Ids = taken[-1].tokens() if taken else NO_IDS
        self._session = ""
        self._waited = 0.0  # seconds, for the policy's answers

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The streams so far, without one in which nothing was said."""
        rest = iter(self.turns)
        found = [tuple(next(rest) for _ in range(count)) for count in self._begun]
        return tuple(Segment(turns) for turns in found if turns)

    def append(self, turn: Turn) -> None:
        """One more turn of the stream."""
        self.turns.append(turn)
        self._begun[-1] += 1
        self._stream = np.concatenate([self._stream, turn.context, turn.action.token_ids])

    async def act(self, step: Extend | Restart) -> tuple[Ids, Action]:
        """The ids that the step adds, and what the policy says after them; `ContextFault` where there is no room for an answer."""
        fresh = isinstance(step, Restart) or not self._begun
        if fresh:
            self._begun.append(0)
            self._stream = NO_IDS
        if fresh or not self._session:  # a restart, and the first step, open a segment and with it a policy session
            self.release()
            self._session = f"{self.attempt.id}#{len(self._begun) - 1}"
        context = self.encoded(step, len(self.turns), None if fresh else self.turns[-1].action)
        budget, attempt = self.attempt.budget, self.attempt
        room = min(budget.context, self._policy.context) - self._used() - len(context)
        if room < 1:
            raise ContextFault("the stream fills the context")
        seed = int(digest(str(attempt.seed), attempt.id, str(len(self.turns)))[:15], 16)
        sampling = replace(attempt.sampling, seed=seed, max_tokens=min(budget.action_tokens, room))
        tokens: Ids = np.concatenate([self._stream, context])
        tokens.setflags(write=False)
        began = time.monotonic()
        try:
            with waiting_for("sampling"):
                return context, await self._policy.act(self._session, tokens, sampling)
        finally:
            self._waited += time.monotonic() - began

    def encoded(self, step: Extend | Restart, number: int, previous: Action | None) -> Ids:
        """The ids that the step adds before the turn of this number, counted from 0, after the action `previous`."""
        budget = self.attempt.budget
        told = announced(step, budget.announced, budget.turns - number)
        if isinstance(told, Extend) or told.after is None:
            return ids(self._policy.encode(told.messages, previous))
        if not 0 <= told.after < number:
            raise ComponentError(f"the agent goes back to turn {told.after}, counted from 0, and has taken {number}")
        new = self._policy.encode(told.messages, self.turns[told.after].action)
        return ids(np.concatenate([self._until(told.after), ids(new)]))

    def read(self, context: Ids) -> Ids:
        """The ids that the policy has read by the end of this context."""
        return np.concatenate([self._stream, context])

    def _until(self, number: int) -> Ids:
        """The stream of the turn of this number up to its action."""
        first = max(begin for begin in accumulate(self._begun, initial=0) if begin <= number)
        return Segment(tuple(self.turns[first : number + 1])).tokens()

    def _used(self) -> int:
        """The tokens of the stream so far, as the server counted them where the ids only spell it."""
        last = self.turns[-1].action.usage if self._begun[-1] else None
        return len(self._stream) if last is None else last.prompt + last.completion

    def over(self) -> Literal["turn limit", "format errors", "repeats"] | None:
        """Which limit has been reached: so many turns; the last ones all unreadable; so many calls made again in the same state."""
        budget = self.attempt.budget
        if len(self.turns) >= budget.turns:
            return "turn limit"
        last = self.turns[-budget.format_errors :] if budget.format_errors else []
        if 0 < len(last) == budget.format_errors and all(turn.observation.failure == "malformed" for turn in last):
            return "format errors"
        again = zip(self.turns, repeated(self.turns), strict=True) if budget.repeats else ()
        return "repeats" if 0 < budget.repeats <= sum(isinstance(turn.call, Call) and made for turn, made in again) else None

    def lost_by(self, error: SandboxFault | SandboxLost) -> bool:
        """Did the agent lose its sandbox, and no machine?"""
        return self._by_agent or isinstance(error, SandboxLost)

    def out_of_time(self, aside: float) -> Stop:
        """Time that went by with waiting for the policy is none that the agent took: where that was most of it, its server failed."""
        return "failed" if self._waited + aside > self.attempt.budget.seconds / 2 else "time limit"

    def release(self) -> None:
        """The policy may forget the stream."""
        if self._session:
            self._policy.release(self._session)
