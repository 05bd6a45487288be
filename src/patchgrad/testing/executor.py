"""What every executor must hold, as one function that its author runs; it looks at results and files alone, so it also holds for
executors whose workers are other processes of this machine."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path

from patchgrad.contracts import Executor

DEADLINE = 60.0
LONG = 0.4  # seconds that an item takes which must not end
MODULE = __name__


async def check_executor(make: Callable[[int], Executor]) -> None:
    """Raises `AssertionError` for the first rule that an executor breaks; `make(concurrency)` gives one with this bound.

    Every item is mapped once and with what is shared; never more than `concurrency` run at a time, and as many as that; a slow item holds
    up no other; the first exception ends the rest and is raised as it is; and leaving the loop, or cancelling who reads, ends all.
    """
    async with asyncio.timeout(DEADLINE):
        await _check_bound(make)
        await _check_order(make(2))
        await _check_exception(make(3))
        await _check_leaving(make(3))
        await _check_cancelling(make(3))
        assert [result async for result in make(2).map(f"{MODULE}:doubled", 1, [])] == [], "no items give no results"


async def doubled(shared: int, item: int) -> tuple[int, float, float]:
    """Twice the item and what is shared, and when that began and ended: a clock that all processes of a machine have in common."""
    began = time.monotonic()
    await asyncio.sleep(0.02)
    return 2 * item + shared, began, time.monotonic()


async def late(shared: float, item: int) -> int:
    """The item; the first one takes so many seconds longer."""
    await asyncio.sleep(shared if item == 0 else 0.0)
    return item


async def marked(shared: str, item: int) -> int:
    """Fails for item 0; every other one writes a file once it has ended, and another one before."""
    (Path(shared) / f"began-{item}").touch()
    if item == 0:
        await asyncio.sleep(LONG / 4)
        raise LookupError(f"item {item}")
    await asyncio.sleep(LONG)
    (Path(shared) / f"ended-{item}").touch()
    return item


async def _check_bound(make: Callable[[int], Executor]) -> None:
    for concurrency in (1, 4):
        results = [result async for result in make(concurrency).map(f"{MODULE}:doubled", 1, range(20))]
        assert sorted(value for value, _, _ in results) == [2 * item + 1 for item in range(20)], "every item is mapped once"
        changes = sorted([(began, 1) for _, began, _ in results] + [(ended, -1) for _, _, ended in results])
        running = [sum(change for _, change in changes[: place + 1]) for place in range(len(changes))]
        assert max(running) == concurrency, f"with a bound of {concurrency}, {max(running)} ran at a time"


async def _check_order(executor: Executor) -> None:
    results = [result async for result in executor.map(f"{MODULE}:late", LONG, range(5))]
    assert sorted(results) == list(range(5)), "every item is mapped once"
    assert results[-1] == 0, "results come as they finish, so a slow item holds up no other"


async def _check_exception(executor: Executor) -> None:
    with tempfile.TemporaryDirectory() as folder:
        raised = ""
        try:
            async for _ in executor.map(f"{MODULE}:marked", folder, range(3)):
                pass
        except LookupError as error:
            raised = str(error)
        assert raised == "item 0", "an exception of the function's arrives as it was raised"
        await _nothing_ends(folder, "after an exception")


async def _check_leaving(executor: Executor) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with aclosing(executor.map(f"{MODULE}:marked", folder, [1, 2])) as results:  # type: ignore[type-var]
            async for _ in results:
                break
        left = sorted(path.name for path in Path(folder).glob("ended-*"))
        await asyncio.sleep(2 * LONG)
        assert sorted(path.name for path in Path(folder).glob("ended-*")) == left, "after the loop was left nothing goes on running"


async def _check_cancelling(executor: Executor) -> None:
    with tempfile.TemporaryDirectory() as folder:

        async def read() -> None:
            async for _ in executor.map(f"{MODULE}:marked", folder, [1, 2, 3]):
                pass

        reader = asyncio.create_task(read())
        while not list(Path(folder).glob("began-*")):
            await asyncio.sleep(0.01)
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader
        await _nothing_ends(folder, "after the reader was cancelled")


async def _nothing_ends(folder: str, when: str) -> None:
    await asyncio.sleep(2 * LONG)
    assert not list(Path(folder).glob("ended-*")), f"{when} nothing goes on running"
