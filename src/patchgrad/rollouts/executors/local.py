"""Episodes as asyncio tasks of this process, a bounded number at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from importlib import import_module
from typing import Any


class LocalExecutor:
    """`map` starts items in order, at most `concurrency` at once, and yields results as they finish.

    The first exception cancels what is still running and is raised; leaving the loop early cancels too.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency

    async def map(self, function: str, shared: object, items: Iterable[object]) -> AsyncIterator[Any]:
        module, _, name = function.partition(":")
        work = getattr(import_module(module), name)
        waiting = iter(items)
        running: set[asyncio.Task[Any]] = set()

        async def call(item: object) -> Any:
            return await work(shared, item)

        def start() -> bool:
            for item in waiting:
                running.add(asyncio.create_task(call(item)))
                return True
            return False

        try:
            while len(running) < self._concurrency and start():
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
