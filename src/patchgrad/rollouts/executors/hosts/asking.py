"""What a host asks of the parts that stay with the process that trains."""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from patchgrad.links import Message
from patchgrad.rollouts.executors.hosts.carrying import plain
from patchgrad.rollouts.executors.hosts.messages import Ask, Drop, Reply


class Questions:
    """Questions that are under way, and their answers."""

    def __init__(self, post: Callable[[Message], None]) -> None:
        self._post = post
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, work: int, part: int, method: str, *arguments: object) -> Any:
        """The answer, or its exception; where nobody waits any more, the other side is told so."""
        number = next(self._numbers)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        self._post(Ask(number, work, part, method, plain(arguments)))
        try:
            return await answer
        except asyncio.CancelledError:
            self._post(Drop(number))
            raise
        finally:
            del self._open[number]

    def tell(self, work: int, part: int, method: str, *arguments: object) -> None:
        """The same, where nobody waits for an answer."""
        self._post(Ask(0, work, part, method, plain(arguments)))

    def answered(self, reply: Reply) -> None:
        """An answer has come."""
        answer = self._open.get(reply.number)
        if answer is None or answer.done():
            return
        value = pickle.loads(reply.value)  # from the process that trains
        if reply.failed:
            answer.set_exception(value)
        else:
            answer.set_result(value)


@dataclass(frozen=True, slots=True)
class Line:
    """The way from a stand-in to its part."""

    questions: Questions
    work: int
    part: int

    async def ask(self, method: str, *arguments: object) -> Any:
        """What a method of the part answers."""
        return await self.questions.ask(self.work, self.part, method, *arguments)

    def tell(self, method: str, *arguments: object) -> None:
        """Calls it, and waits for nothing."""
        self.questions.tell(self.work, self.part, method, *arguments)
