"""What hosts ask of the parts that stay: each question is answered by itself, and a question that nobody waits for any more is left."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchgrad.errors import ComponentError
from patchgrad.rollouts.executors.hosts.carrying import Sender, plain
from patchgrad.rollouts.executors.hosts.messages import Ask, Drop, Reply


class Answers:
    """Answers to one host, which are given to `post`."""

    def __init__(self, sender: Sender, post: Callable[[Reply], None]) -> None:
        self._sender, self._post = sender, post
        self._unnumbered = itertools.count(-1, -1)
        self._under_way: dict[int, asyncio.Task[None]] = {}

    def ask(self, ask: Ask) -> None:
        """Begins to answer."""
        number = ask.number or next(self._unnumbered)
        task = self._under_way[number] = asyncio.create_task(self._answer(ask))
        task.add_done_callback(lambda _: self._under_way.pop(number, None))

    def drop(self, drop: Drop) -> None:
        """Nobody waits for this answer."""
        if task := self._under_way.get(drop.number):
            task.cancel()

    def close(self) -> None:
        """Nobody waits for any."""
        for task in self._under_way.values():
            task.cancel()

    async def _answer(self, ask: Ask) -> None:
        try:
            reply = Reply(ask.number, plain(await self._value(ask)), False)
        except Exception as error:
            reply = Reply(ask.number, plain(error), True)
        if ask.number:
            self._post(reply)

    async def _value(self, ask: Ask) -> Any:
        arguments = pickle.loads(ask.arguments)  # from a host of this run
        if ask.method == "archive":
            return await self._archive(*arguments)
        value = getattr(self._sender.part(ask.part), ask.method)(*arguments)
        return await value if inspect.isawaitable(value) else value

    async def _archive(self, location: str) -> bytes:
        if location not in self._sender.archives:
            raise ComponentError(f"{location} is the archive of no task that was sent")
        return await asyncio.to_thread(Path(location).read_bytes)
