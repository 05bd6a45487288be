"""An attempt of a program of others: it is told of each turn, and what it asks then is the next step.

    it asks -> the step; the turn is made -> it gets the answer, has the command run, gets the turn's observation -> it asks ...

A turn is made before the program learns of it, so another process of the same program, told of the same turns, stands at the same place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from patchgrad.agents.gateway.calls import read
from patchgrad.agents.gateway.dialects import Sampled
from patchgrad.agents.gateway.history import History, beginning
from patchgrad.agents.gateway.server import Gateway, gateway
from patchgrad.agents.gateway.session import Counting, Ended, Question
from patchgrad.contracts import AttemptAccess, Extend, Finish, Restart, Tool
from patchgrad.errors import ProgramFault
from patchgrad.values import NO_IDS, Call, Ids, Stop, Turn

T = TypeVar("T")
_Next = tuple[Question, Extend | Restart] | Ended
NOT_RUN: Mapping[str, Any] = {"output": "", "returncode": -1, "exception_info": "The command was not run: an answer makes one call."}


@dataclass(frozen=True, slots=True)
class Begun:
    """How a program is started: `start(address, token, ended)` begins it and gives what stops it; it tells `ended` how it was over.

    `tools` are what its calls run. `stops` are its words for how an attempt ends; with others it broke. `tells_tools`: is the policy told
    of its tools?
    """

    tools: Mapping[str, Tool]
    start: Callable[[str, str, Callable[[str, str], None]], Callable[[], None]]
    stops: Mapping[str, Stop]
    tells_tools: bool = True


class ProgramConversation:
    """A `Conversation`. The program is started when it is first asked, in a thread, since that may take seconds."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self._gateway: Gateway = gateway()
        self._session = self._gateway.open()
        self._history = History(begun.tells_tools)
        self._now: _Next | None = None
        self._stop: Callable[[], None] | None = None
        self._turns = 0  # that the program was told of
        self._stream: Ids = NO_IDS

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._begun.tools

    async def prompt(self, turns: Sequence[Turn], access: AttemptAccess) -> Extend | Restart | Finish:
        """Tells the program of turns that it does not know, and gives what it asks then, or how it ended."""
        if self._stop is None:
            token, ended = self._session.token, self._session.end
            self._stop = await asyncio.to_thread(self._begun.start, self._gateway.address, token, ended)
            self._now = await self._next(None, access)
        for turn in turns[self._turns :]:
            if not isinstance(self._now, tuple):
                raise ProgramFault(f"the program ended before turn {self._turns + 1}, which it took before: {_told(self._now)}")
            self._now = await self._tell(turn, access, *self._now)
        if isinstance(self._now, tuple):
            return self._now[1]
        stop = self._begun.stops.get(self._now.status) if self._now else None
        if stop is None:
            raise ProgramFault(f"the program broke: {_told(self._now)}")
        return Finish(stop)

    async def close(self) -> None:
        """Ends the program; whoever it asks is told that the attempt is over."""
        self._gateway.leave(self._session)
        if self._stop is not None:
            self._stop()

    async def _tell(self, turn: Turn, access: AttemptAccess, question: Question, step: Extend | Restart) -> _Next:
        """Answers what the program has asked, and what it has run then, with what the turn says."""
        prompt = turn.context if isinstance(step, Restart) else np.concatenate([self._stream, turn.context])
        sampled = Sampled(read(turn.action.text), turn.action, prompt, self._turns)
        _reply(question.reply, sampled)
        self._history.answered(sampled.said)
        self._stream = np.concatenate([prompt, turn.action.token_ids])
        self._turns += 1
        return await self._next(turn, access)

    async def _next(self, turn: Turn | None, access: AttemptAccess) -> _Next:
        """Until the program asks again or is over. The one command that is the turn's gives what it gave; no other one is run."""
        given = turn
        while True:
            event = await self._session.next()
            if isinstance(event, Question):
                return event, self._history.step(event.request)
            if isinstance(event, Ended):
                return event
            if isinstance(event, Counting):
                _reply(event.reply, access.count(beginning(event.request)))
            elif given is not None and given.call == Call("bash", event.command):
                _reply(event.reply, _result(given))
                given = None
            else:
                _reply(event.reply, NOT_RUN)


def _result(turn: Turn) -> Mapping[str, Any]:
    """What a command gave, as programs read it."""
    seen = turn.observation
    failure = "" if seen.failure is None else f"The command ended otherwise: {seen.failure}."
    return {"output": seen.content, "returncode": -1 if seen.exit_code is None else seen.exit_code, "exception_info": failure}


def _reply(reply: Future[T], told: T) -> None:
    if not reply.done():
        reply.set_result(told)


def _told(now: Ended | tuple[Any, ...] | None) -> str:
    if not isinstance(now, Ended):
        return "it asked something"
    return f"{now.status}: {now.detail}" if now.detail else now.status or "it said nothing"
