"""What every executor must hold, as one function that its author runs.

It looks at results and files alone, and its items wait for one another, so it also holds for executors whose workers are other processes of
this machine, however long these take to start.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

from patchgrad.contracts import Executor
from patchgrad.testing.examples import TASK, example_rollout
from patchgrad.values import Attempt, Budget, Rollout, Sampling

GRACE = 0.5  # seconds within which everything must have ended
PATIENCE = 5.0  # seconds within which four items must have been read that take no time
MODULE = __name__


async def check_executor(make: Callable[[int], Executor], *, deadline: float = 120.0) -> None:
    """Raises `AssertionError` for the first rule that an executor breaks; `make(concurrency)` gives one with this bound.

    Every item is mapped once and with what is shared; never more than `concurrency` run at a time, and as many as that; a slow item holds
    up no other; an attempt and what comes of it arrive as they were sent; the first exception ends the rest and is raised as it is; leaving
    the loop, or cancelling who reads, ends all, and the next work is done all the same. All of it takes `deadline` seconds at most.
    """
    async with asyncio.timeout(deadline):
        async with _closed(make(1)) as executor:
            await _check_bound(executor, 1)
        async with _closed(make(2)) as executor:
            await _check_order(executor)
            await _check_values(executor)
            await _check_leaving(executor)
            assert [result async for result in executor.map(f"{MODULE}:late", "", [])] == [], "no items give no results"
        async with _closed(make(3)) as executor:
            await _check_bound(executor, 3)
            await _check_exception(executor)
            await _check_cancelling(executor)


@asynccontextmanager
async def _closed(executor: Executor) -> AsyncIterator[Executor]:
    try:
        yield executor
    finally:
        await executor.close()


async def met(shared: tuple[str, int], item: int) -> tuple[int, float, float]:
    """The item with the bound that is shared, and when it began and ended; it waits until as many as the bound have begun."""
    folder, bound = shared
    began = time.monotonic()  # a clock that all processes of a machine have in common
    _mark(folder, f"began-{item}")
    await _seen(folder, (f"began-{number}" for number in range(bound)))
    return 100 * bound + item, began, time.monotonic()


async def late(shared: str, item: int) -> int:
    """The item; the first one waits until the reader has had the four after it, but not for ever."""
    if item == 0:
        await _seen(shared, ["began-1"])
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await _seen(shared, (f"read-{number}" for number in range(1, 5)))
    _mark(shared, f"began-{item}")
    return item


async def played(shared: Rollout, attempt: Attempt) -> tuple[Attempt, Rollout]:
    """The attempt as it arrived, and a rollout."""
    return attempt, shared


async def marked(shared: str, item: int) -> int:
    """Item 0 fails once the others have begun, item 1 ends then; any other ends a while after it was told to go on."""
    _mark(shared, f"began-{item}")
    if item < 2:
        await _seen(shared, [f"began-{number}" for number in ((1, 2) if item == 0 else (2,))])
        if item == 0:
            _mark(shared, "go on")
            raise LookupError(f"item {item}")
        if (Path(shared) / "leave").exists():
            _mark(shared, "go on")
            return item
    await _seen(shared, ["go on"])
    await asyncio.sleep(GRACE)
    _mark(shared, f"ended-{item}")
    return item


def _mark(folder: str, name: str) -> None:
    (Path(folder) / name).touch()


async def _seen(folder: str, names: Iterable[str]) -> None:
    """Wait until these files are there."""
    for name in names:
        while not (Path(folder) / name).exists():
            await asyncio.sleep(0.01)


async def _check_bound(executor: Executor, bound: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = [result async for result in executor.map(f"{MODULE}:met", (folder, bound), range(12))]
    assert sorted(value for value, _, _ in results) == [100 * bound + item for item in range(12)], "every item is mapped once"
    changes = sorted([(began, 1) for _, began, _ in results] + [(ended, -1) for _, _, ended in results])
    running = [sum(change for _, change in changes[: place + 1]) for place in range(len(changes))]
    assert max(running) == bound, f"with a bound of {bound}, {max(running)} ran at a time"


async def _check_order(executor: Executor) -> None:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        async for result in executor.map(f"{MODULE}:late", folder, range(5)):
            _mark(folder, f"read-{result}")
            results.append(result)
    assert sorted(results) == list(range(5)), "every item is mapped once"
    assert results[-1] == 0, "results come as they finish, so a slow item holds up no other"


async def _check_values(executor: Executor) -> None:
    rollout = example_rollout("a")
    prefix = rollout.trajectory.turns
    sent = Attempt(TASK, "a/1", 7, Budget(4, 1024), Sampling(16, 3), prefix, "a")
    ((arrived, returned),) = [result async for result in executor.map(f"{MODULE}:played", rollout, [sent])]
    assert repr(arrived) == repr(sent), "an attempt arrives as it was sent"
    assert [turn.address for turn in arrived.prefix] == [turn.address for turn in prefix], "the turns of a prefix keep their addresses"
    assert arrived.root == sent.root, "an attempt begins where it was sent from"
    assert repr(returned) == repr(rollout), "a result arrives as it was returned"


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
        _mark(folder, "leave")
        results = executor.map(f"{MODULE}:marked", folder, [1, 2])
        assert isinstance(results, AsyncGenerator), "who leaves the loop early can close what it went over"
        async with aclosing(results):
            async for _ in results:
                break
        await _nothing_ends(folder, "after the loop was left")


async def _check_cancelling(executor: Executor) -> None:
    with tempfile.TemporaryDirectory() as folder:

        async def read() -> None:
            async for _ in executor.map(f"{MODULE}:marked", folder, [2, 3, 4]):
                pass

        reader = asyncio.create_task(read())
        await _seen(folder, ["began-2", "began-3", "began-4"])
        reader.cancel()
        with suppress(asyncio.CancelledError):
            await reader
        _mark(folder, "go on")
        await _nothing_ends(folder, "after the reader was cancelled")


async def _nothing_ends(folder: str, when: str) -> None:
    await asyncio.sleep(2 * GRACE)
    assert not list(Path(folder).glob("ended-*")), f"{when} nothing goes on running"
