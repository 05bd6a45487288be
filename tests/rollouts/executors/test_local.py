from __future__ import annotations

import asyncio

import pytest

from patchgrad.rollouts.executors import LocalExecutor


def test_every_item_is_mapped_once_and_never_more_than_the_bound_at_a_time() -> None:
    concurrency, most = 0, 0

    async def double(item: int) -> int:
        nonlocal concurrency, most
        concurrency += 1
        most = max(most, concurrency)
        await asyncio.sleep(0.001 * (item % 3))
        concurrency -= 1
        return 2 * item

    async def run() -> list[int]:
        return [result async for result in LocalExecutor(4).map(double, range(30))]

    assert sorted(asyncio.run(run())) == [2 * i for i in range(30)]
    assert most == 4


def test_an_exception_cancels_the_others_and_is_raised() -> None:
    cancelled = []

    async def work(item: int) -> None:
        try:
            if item == 0:
                raise ValueError("boom")
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    async def run() -> None:
        async for _ in LocalExecutor(3).map(work, range(3)):
            pass

    with pytest.raises(ValueError, match="boom"):
        asyncio.run(run())
    assert sorted(cancelled) == [1, 2]
