"""Episodes as asyncio tasks of this process, a bounded number at a time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any


class LocalExecutor:
    """`map` starts items in order, and yields results as they finish. At most `concurrency` run at once.

    Where several calls of `map` are under way, items of earlier ones come first. The first exception cancels what is still running and is
    raised; leaving the loop early cancels too.
    """

    def __init__(self, concurrency: int) -> None:
        self._places = Places(concurrency)
        self._numbers = itertools.count()

    async def map(self, function: str, shared: object, items: Iterable[object]) -> AsyncIterator[Any]:
        module, _, name = function.partition(":")
        work = getattr(import_module(module), name)
        waiting, number = iter(items), next(self._numbers)
        running: set[asyncio.Task[Any]] = set()

        async def call(item: object) -> Any:
            async with self._places.taken(number):
                return await work(shared, item)

        def start() -> bool:
            for item in waiting:
                running.add(asyncio.create_task(call(item)))
                return True
            return False

        try:
            while len(running) < 2 * self._places.count and start():  # as many wait: else a later call's items would come between
                pass
            while running:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    result = task.result()  # one that failed stays among the running, so that `gather` hears of others that did
                    running.remove(task)
                    start()
                    yield result
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def close(self) -> None:
        """There is nothing to end."""


class Places:
    """So many places; who waits for one gets it in the order of the numbers."""

    def __init__(self, count: int) -> None:
        self.count = self._free = count
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._turns = itertools.count()

    @asynccontextmanager
    async def taken(self, number: int) -> AsyncIterator[None]:
        """One of them, while the block runs."""
        if self._free:
            self._free -= 1
        else:
            place = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (number, next(self._turns), place))
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._hand_on()
                raise
        try:
            yield
        finally:
            self._hand_on()

    def _hand_on(self) -> None:
        while self._waiting:
            _, _, place = heapq.heappop(self._waiting)
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
