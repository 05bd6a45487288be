"""Items on hosts, and what becomes of those whose host is lost."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from patchgrad.errors import ClusterFault, ComponentError, HostLost
from patchgrad.rollouts.executors.hosts.answering import Answers
from patchgrad.rollouts.executors.hosts.carrying import Sender
from patchgrad.rollouts.executors.hosts.links import Hosts
from patchgrad.rollouts.executors.hosts.messages import Ask, Done, Drop, Leave, Left, Message, Start, Work
from patchgrad.rollouts.executors.hosts.placing import Item, Placed, Queue

LEAVING = 60.0
"""Seconds in which a host has to end what it is told to; its sandboxes are closed in that time."""


class HostsExecutor:
    """`map` on other machines: at most `concurrency` items at once, on each host as many as it has cells.

    Of parts that keep one of the contracts in `kept`, or are of such a type, each host has one of its own (`carrying`). Items of one `kin`
    go to one host (`placing`). Where a host is lost, its items begin again on others; an item that ends every host is given up, and
    `given_up` is its result. `map` raises `ClusterFault` where there is no host for `patience` seconds.
    """

    def __init__(
        self,
        hosts: Hosts,
        concurrency: int,
        *,
        given_up: Callable[[Any], Any],
        kin: Callable[[Any], str] = lambda item: "",
        kept: Sequence[type[Any]] = (),
        patience: float = 300.0,
    ) -> None:
        self._hosts, self._concurrency, self._patience = hosts, concurrency, patience
        self._sender, self._kin, self._given_up = Sender(kept), kin, given_up
        self._there: list[Placed] = []
        self._queues: dict[int, Queue] = {}
        self._numbers = itertools.count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: ClusterFault | None = None
        self.lost: Counter[str] = Counter()

    async def map(self, function: str, shared: object, items: Iterable[object]) -> AsyncIterator[Any]:
        number = next(self._numbers)
        fresh = (Item(place, value, self._kin(value)) for place, value in enumerate(items))
        queue = self._queues[number] = Queue(Work(number, function, self._packed(shared)), fresh)
        if not self._tasks:
            self._tasks.append(asyncio.create_task(self._join()))
        try:
            while self._filled(queue):
                for result in await self._results(queue):
                    yield result
        finally:
            await self._leave(queue)

    async def close(self) -> None:
        """Ends all hosts."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        await self._hosts.close()

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
        while queue.running < self._concurrency and (found := queue.placed(self._there)) is not None:
            item, host = found
            if queue.number not in host.told:
                host.told.add(queue.number)
                host.link.post(queue.message)
            host.link.post(Start(queue.number, item.number, self._packed(item.value)))
        return queue.running > 0 or bool(queue.again) or not queue.news.empty()

    async def _results(self, queue: Queue) -> list[Any]:
        """What the next news come to: a result, or nothing where there is room again. Raises the exception of a call."""
        try:
            async with asyncio.timeout(None if self._there else self._patience):
                news = await queue.news.get()
        except TimeoutError:
            raise self._nobody() from None
        if self._fault is not None:
            raise self._fault
        match news:
            case Item():
                return [self._given_up(news.value)]
            case Done():
                value = pickle.loads(news.result)  # from a host of this run
                if news.failed:
                    raise value
                return [value]
        return []

    def _nobody(self) -> ClusterFault:
        names = ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in self.lost.items())
        told = "; ".join(filter(None, (f"lost: {names}" if names else "none has come", self._hosts.trouble)))
        return ClusterFault(
            f"The cluster has had no host for attempts for {self._patience:.0f} s ({told}): add machines with the resource cells, or "
            "resume the run when there are some."
        )

    async def _join(self) -> None:
        """Takes hosts in, as they come, until the cluster is gone."""
        while True:
            try:
                host = Placed(await self._hosts.joined())
            except ClusterFault as fault:
                self._fault = fault
                self._tell()
                return
            self._there.append(host)
            self._tasks.append(asyncio.create_task(self._read(host)))
            self._tell()

    async def _read(self, host: Placed) -> None:
        """What a host says, until it is lost."""
        answers = Answers(self._sender, host.link.post)
        try:
            while True:
                self._heard(host, await host.link.received(), answers)
        except HostLost:
            self._bury(host)
        finally:
            answers.close()

    def _heard(self, host: Placed, message: Message, answers: Answers) -> None:
        match message:
            case Ask():
                answers.ask(message)
            case Drop():
                answers.drop(message)
            case Done() if (queue := self._queues.get(message.work)) and queue.done(message.item, host):
                queue.news.put_nowait(message)
            case Left():
                host.told.discard(message.work)
                self._tell()

    def _bury(self, host: Placed) -> None:
        """A host is gone, and its items wait for another one."""
        host.link.kill()
        self._there.remove(host)
        self.lost[host.link.name] += 1
        for (work, _), item in host.running.items():
            if self._queues[work].lost(item):
                self._queues[work].news.put_nowait(item)
        host.running.clear()
        self._tell()

    def _tell(self) -> None:
        """There may be room."""
        for queue in self._queues.values():
            queue.news.put_nowait(None)

    async def _leave(self, queue: Queue) -> None:
        """Nothing of it goes on anywhere when this returns; a host that does not say so in time is killed."""
        last = time.monotonic() + LEAVING
        for host in (told := [host for host in self._there if queue.number in host.told]):
            host.link.post(Leave(queue.number))
        while waiting := [host for host in told if host in self._there and queue.number in host.told]:
            try:
                async with asyncio.timeout(max(0.0, last - time.monotonic())):
                    await queue.news.get()
            except TimeoutError:
                for host in waiting:
                    self._bury(host)
        for host in told:
            host.running = {key: item for key, item in host.running.items() if key[0] != queue.number}
        del self._queues[queue.number]
