"""Items on hosts, and what becomes of those whose host is lost."""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from patchgrad.errors import ComponentError
from patchgrad.rollouts.executors.hosts.carrying import Sender
from patchgrad.rollouts.executors.hosts.crew import Crew
from patchgrad.rollouts.executors.hosts.links import Hosts
from patchgrad.rollouts.executors.hosts.messages import Done, Start, Work
from patchgrad.rollouts.executors.hosts.placing import Item, Queue


class HostsExecutor:
    """`map` on other machines: at most `concurrency` items at once, on each host as many as it has cells.

    Of parts that keep one of the contracts in `kept`, or are of such a type, each host has one of its own (`carrying`). Items of one `kin`
    go to one host (`placing`). Where a host is lost, its items begin again on others; an item that ends every host is given up, and
    `given_up` is its result. `code` are files of the user's, which hosts import parts from. `map` raises `ClusterFault` where there is no
    host for `patience` seconds.
    """

    def __init__(
        self,
        hosts: Hosts,
        concurrency: int,
        *,
        given_up: Callable[[Any], Any],
        kin: Callable[[Any], str] = lambda item: "",
        kept: Sequence[type[Any]] = (),
        code: Mapping[str, bytes] = MappingProxyType({}),
        patience: float = 300.0,
    ) -> None:
        self._concurrency, self._patience = concurrency, patience
        self._code = dict(code)
        self._sender, self._kin, self._given_up = Sender(kept), kin, given_up
        self._crew = Crew(hosts, self._sender)
        self._numbers = itertools.count(1)

    @property
    def lost(self) -> Mapping[str, int]:
        """How often hosts were lost, by their names."""
        return self._crew.lost

    async def map(self, function: str, shared: object, items: Iterable[object]) -> AsyncIterator[Any]:
        number = next(self._numbers)
        fresh = (Item(place, value, self._kin(value)) for place, value in enumerate(items))
        queue = Queue(Work(number, function, self._packed(shared), self._code), fresh)
        self._crew.begin(queue)
        try:
            while self._filled(queue):
                for result in await self._results(queue):
                    yield result
        finally:
            await self._crew.leave(queue)

    async def close(self) -> None:
        await self._crew.close()

    def _packed(self, value: object) -> bytes:
        try:
            return self._sender.pack(value)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ComponentError(
                f"A part of this run cannot be sent to other machines ({error}): let it hold no open files, locks or connections, or run "
                "without a cluster."
            ) from error

    def _filled(self, queue: Queue) -> bool:
        """Sends what there is room for. Is anything left to wait for?"""
        waited = queue.waits
        while self._crew.room(queue, self._concurrency) and (found := queue.placed(self._crew.there)) is not None:
            item, host = found
            if queue.number not in host.told:
                host.told.add(queue.number)
                host.link.post(queue.message)
            host.link.post(Start(queue.number, item.number, self._packed(item.value)))
        if waited and not queue.waits:
            self._crew.tell()  # later queues may go on
        return queue.running > 0 or queue.waits or not queue.news.empty()

    async def _results(self, queue: Queue) -> list[Any]:
        """What the next news come to: a result, or nothing where there is room again. Raises the exception of a call."""
        try:
            async with asyncio.timeout(None if self._crew.there else self._patience):
                news = await queue.news.get()
        except TimeoutError:
            raise self._crew.nobody(self._patience) from None
        if self._crew.fault is not None:
            raise self._crew.fault
        match news:
            case Item():
                return [self._given_up(news.value)]
            case Done():
                value = pickle.loads(news.result)  # from a host of this run
                if news.failed:
                    raise value
                return [value]
        return []
