"""One attempt's program and who answers it: what it asks and what it runs arrive here in order, from the server's thread.

A session is named by a token that is made for one attempt. It is over with it: what a program asks later is refused.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from patchgrad.agents.gateway.dialects import Sampled
from patchgrad.agents.gateway.history import ChatRequest


class SessionOver(Exception):
    """The attempt that the session was made for is over."""


@dataclass(frozen=True, slots=True)
class Question:
    """A program wants an answer; `reply` takes it."""

    request: ChatRequest
    digest: str
    reply: Future[Sampled] = field(default_factory=Future, compare=False)


@dataclass(frozen=True, slots=True)
class Counting:
    """A program wants to know how many tokens a request has; `reply` takes their count."""

    request: ChatRequest
    reply: Future[int] = field(default_factory=Future, compare=False)


@dataclass(frozen=True, slots=True)
class Command:
    """A program has a command run; `reply` takes what it gave."""

    command: str
    reply: Future[Mapping[str, Any]] = field(default_factory=Future, compare=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """A program is over: in its own words how, and, where it broke, by what."""

    status: str
    detail: str = ""


class Session:
    """What a program does, as the attempt's loop reads it; made in that loop."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Question | Counting | Command | Ended] = asyncio.Queue()
        self._asked: deque[Question] = deque(maxlen=2)  # the last one, and one more that a slow retry may mean
        self._waiting: list[Future[Any]] = []
        self._over = False

    async def next(self) -> Question | Counting | Command | Ended:
        """What the program does next."""
        return await self._events.get()

    def ask(self, request: ChatRequest, digest: str, retried: bool) -> Future[Sampled]:
        """A question of the program's. One that is marked as asked again, or comes while the same waits, has the answer of the first.

        Raises `SessionOver`.
        """
        for earlier in self._asked:
            if earlier.digest == digest and (retried or not earlier.reply.done()):
                return earlier.reply
        question = Question(request, digest)
        self._asked.append(question)
        self._put(question, question.reply)
        return question.reply

    def count(self, request: ChatRequest) -> Future[int]:
        """A question for the number of a request's tokens. Raises `SessionOver`."""
        counting = Counting(request)
        self._put(counting, counting.reply)
        return counting.reply

    def run(self, command: str) -> Future[Mapping[str, Any]]:
        """A command of the program's. Raises `SessionOver`."""
        told = Command(command)
        self._put(told, told.reply)
        return told.reply

    def end(self, status: str, detail: str) -> None:
        """The program is over. An attempt whose loop has ended needs not to know, and others' are told by the same thread.

        Its last words are told and kept, without its token.
        """
        ended = Ended(*(words.replace(self.token, "[the token]") for words in (status, detail)))
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._events.put_nowait, ended)

    def close(self) -> None:
        """The attempt is over: who still waits is told so, and nobody is answered any more."""
        self._over = True
        for reply in self._waiting:
            if not reply.done():
                reply.set_exception(SessionOver())

    def _put(self, event: Question | Counting | Command, reply: Future[Any]) -> None:
        if self._over:
            raise SessionOver
        self._waiting = [one for one in self._waiting if not one.done()] + [reply]
        self._loop.call_soon_threadsafe(self._events.put_nowait, event)
