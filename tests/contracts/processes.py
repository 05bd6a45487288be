"""An executor over processes of this machine, as small as one can be: it shows that the contract can be kept across processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
from collections.abc import AsyncIterator, Iterable, Iterator
from importlib import import_module
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any


class ProcessExecutor:
    """`map` starts up to `concurrency` fresh interpreters, hands each of them the function's name and what is shared once, then items.

    However the loop ends, its processes are killed.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency

    async def map(self, function: str, shared: object, items: Iterable[object]) -> AsyncIterator[Any]:
        waiting = iter(items)
        workers: list[_Worker] = []
        running: dict[asyncio.Task[Any], _Worker] = {}
        try:
            for item in islice(waiting, self._concurrency):
                workers.append(_Worker(function, shared))
                running[asyncio.create_task(workers[-1].call(item))] = workers[-1]
            while running:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    worker = running.pop(task)
                    result = task.result()
                    for item in islice(waiting, 1):
                        running[asyncio.create_task(worker.call(item))] = worker
                    yield result
        finally:
            for worker in workers:
                worker.kill()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            for worker in workers:
                worker.end()

    async def close(self) -> None:
        """Nothing is left of a `map` that has ended."""


class _Worker:
    """One process, which is asked for one item at a time."""

    def __init__(self, function: str, shared: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.send((function, shared))

    async def call(self, item: object) -> Any:
        """The result of an item, or its exception."""
        self._pipe.send(item)
        loop, there = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pipe.fileno(), there.set)
        try:
            await there.wait()
        finally:
            loop.remove_reader(self._pipe.fileno())
        result, error = self._pipe.recv()
        if error is not None:
            raise error
        return result

    def kill(self) -> None:
        """It does nothing more."""
        self._process.kill()

    def end(self) -> None:
        """Nothing of it is left."""
        self._process.join()
        self._process.close()
        self._pipe.close()


def _serve(pipe: Connection) -> None:
    """The process: answers items in their order until nobody asks."""
    function, shared = pipe.recv()
    module, _, name = function.partition(":")
    work = getattr(import_module(module), name)
    for item in _received(pipe):
        try:
            answer = pickle.dumps((asyncio.run(work(shared, item)), None))
        except Exception as error:
            answer = pickle.dumps((None, error))
        pipe.send_bytes(answer)


def _received(pipe: Connection) -> Iterator[object]:
    while True:
        try:
            yield pipe.recv()
        except EOFError:
            return
