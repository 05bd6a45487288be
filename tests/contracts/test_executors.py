"""Every executor against the contract, and one over processes, which shows that nothing in the contract needs a common memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from tests.contracts.processes import ProcessExecutor

from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.testing import check_executor


def test_the_local_executor_keeps_the_contract() -> None:
    asyncio.run(check_executor(LocalExecutor))


def test_an_executor_over_processes_keeps_the_contract() -> None:
    asyncio.run(check_executor(ProcessExecutor, deadline=280.0))


def test_an_executor_that_waits_for_the_slowest_or_leaves_work_behind_is_found_out() -> None:
    class InOrder:
        def __init__(self, concurrency: int) -> None:
            self._own = LocalExecutor(concurrency)

        async def map(self, function: str, shared: object, items: Iterable[object]) -> AsyncIterator[Any]:
            for result in sorted([result async for result in self._own.map(function, shared, items)], key=str):
                yield result

        async def close(self) -> None:
            await self._own.close()

    with pytest.raises(AssertionError, match="a slow item holds up no other"):
        asyncio.run(check_executor(InOrder))

    class Lasting(LocalExecutor):
        async def map(self, function: str, shared: object, items: Iterable[object]) -> AsyncIterator[Any]:
            results: asyncio.Queue[Any] = asyncio.Queue()
            given = list(items)

            async def fill() -> None:
                try:
                    async for result in LocalExecutor(self._places.count).map(function, shared, given):
                        results.put_nowait(result)
                except LookupError as error:
                    results.put_nowait(error)

            self.filling = asyncio.create_task(fill())
            for _ in given:
                result = await results.get()
                if isinstance(result, LookupError):
                    raise result
                yield result

    with pytest.raises(AssertionError, match="after the loop was left nothing goes on running"):
        asyncio.run(check_executor(Lasting))
