"""What every executor must hold, as one function that its author runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from patchgrad.contracts import Executor

DEADLINE = 30.0


async def check_executor(make: Callable[[int], Executor]) -> None:
    """Raises `AssertionError` for the first rule that an executor breaks; `make(concurrency)` gives one with this bound.

    Every item is mapped once; never more than `concurrency` run at a time, and as many as that; a slow item holds up no other; the first
    exception ends the rest and is raised as it is; and cancelling the reader ends all.
    """
    async with asyncio.timeout(DEADLINE):
        await _check_bound(make)
        await _check_order(make(2))
        await _check_exception(make(3))
        await _check_cancelling(make(3))
        assert [result async for result in make(2).map(_double, [])] == [], "no items give no results"


async def _double(item: int) -> int:
    await asyncio.sleep(0)
    return 2 * item


async def _check_bound(make: Callable[[int], Executor]) -> None:
    for concurrency in (1, 4):
        running, most = 0, 0

        async def work(item: int) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.002)
            running -= 1
            return 2 * item

        results = [result async for result in make(concurrency).map(work, range(20))]
        assert sorted(results) == [2 * item for item in range(20)], "every item is mapped once"
        assert most == concurrency, f"with a bound of {concurrency}, {most} ran at a time"


async def _check_order(executor: Executor) -> None:
    others = asyncio.Event()

    async def work(item: int) -> int:
        if item == 0:
            await others.wait()
        return item

    results = []
    async for result in executor.map(work, range(5)):
        results.append(result)
        if len(results) == 4:
            others.set()
    assert results[-1] == 0, "results come as they finish, so a slow item holds up no other"


async def _check_exception(executor: Executor) -> None:
    ended: list[int] = []
    raised = ""
    try:
        async for _ in executor.map(lambda item: _waits(item, ended, fails=0), range(3)):
            pass
    except LookupError as error:
        raised = str(error)
    assert raised == "item 0", "an exception of the function's arrives as it was raised"
    assert sorted(ended) == [1, 2], "after an exception nothing goes on running"


async def _check_cancelling(executor: Executor) -> None:
    ended: list[int] = []

    async def read() -> None:
        async for _ in executor.map(lambda item: _waits(item, ended), range(3)):
            pass

    reader = asyncio.create_task(read())
    await asyncio.sleep(0.05)
    reader.cancel()
    with suppress(asyncio.CancelledError):
        await reader
    assert sorted(ended) == [0, 1, 2], "after the reader was cancelled nothing goes on running"


async def _waits(item: int, ended: list[int], fails: int = -1) -> int:
    """Fails soon, or waits until it is cancelled and tells."""
    if item == fails:
        await asyncio.sleep(0.01)
        raise LookupError(f"item {item}")
    try:
        await asyncio.sleep(2 * DEADLINE)
    finally:
        ended.append(item)
    return item
