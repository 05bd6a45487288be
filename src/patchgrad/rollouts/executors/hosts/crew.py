"""The hosts that are there: they are taken in as they come, heard, and given up where they are lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from patchgrad.errors import ClusterFault, HostLost
from patchgrad.links import Message, Notice
from patchgrad.rollouts.executors.hosts.answering import Answers
from patchgrad.rollouts.executors.hosts.carrying import Sender
from patchgrad.rollouts.executors.hosts.links import Hosts
from patchgrad.rollouts.executors.hosts.messages import Ask, Done, Drop, Leave, Left
from patchgrad.rollouts.executors.hosts.placing import Placed, Queue

LEAVING = 60.0
"""Seconds in which a host has to end what it is told to; its sandboxes are closed in that time."""


class Crew:
    """Hosts of a cluster, and the queues that are worked on. `fault` is why no more come.

    `lost` counts hosts by their names, and `left` those that had said before that their machine is about to end.
    """

    def __init__(self, hosts: Hosts, sender: Sender) -> None:
        self._hosts, self._sender = hosts, sender
        self._tasks: list[asyncio.Task[None]] = []
        self.there: list[Placed] = []
        self.queues: dict[int, Queue] = {}
        self.lost: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.fault: ClusterFault | None = None

    def begin(self, queue: Queue) -> None:
        """Its news are told from now on."""
        self.queues[queue.number] = queue
        if not self._tasks:
            self._tasks.append(asyncio.create_task(self._join()))

    def room(self, queue: Queue, concurrency: int) -> bool:
        """May one more item of it run? At most so many run at once, and those of earlier queues come first."""
        others = [other for other in self.queues.values() if other is not queue]
        waits = any(other.number < queue.number and other.waits for other in others)
        return not waits and queue.running + sum(other.running for other in others) < concurrency

    async def close(self) -> None:
        """Ends all hosts."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        await self._hosts.close()

    def nobody(self, patience: float) -> ClusterFault:
        """What to say where there has been no host for so many seconds."""
        gone = [f"{word}: {_names(counted)}" for word, counted in (("lost", self.lost), ("left", self.left)) if counted]
        told = "; ".join(filter(None, (*(gone or ["none has come"]), self._hosts.trouble)))
        return ClusterFault(
            f"The cluster has had no host for attempts for {patience:.0f} s ({told}): add machines with the resource cells, or resume the "
            "run when there are some."
        )

    async def _join(self) -> None:
        """Takes hosts in, as they come, until the cluster is gone."""
        while True:
            try:
                host = Placed(await self._hosts.joined())
            except ClusterFault as fault:
                self.fault = fault
                self.tell()
                return
            self.there.append(host)
            self._tasks.append(asyncio.create_task(self._read(host)))
            self.tell()

    async def _read(self, host: Placed) -> None:
        """What a host says, until it is lost or has left."""
        answers = Answers(self._sender, host.link.post)
        try:
            while host.told or not host.leaves:
                self._heard(host, await host.link.received(), answers)
            self._bury(host)
        except HostLost:
            self._bury(host)
        except Exception as error:  # else everybody would wait for what it was about
            self.fault = ClusterFault(f"What {host.link.name} said was not understood ({type(error).__name__}: {error}): resume the run.")
            self.tell()
        finally:
            answers.close()

    def _heard(self, host: Placed, message: Message, answers: Answers) -> None:
        match message:
            case Ask():
                answers.ask(message)
            case Drop():
                answers.drop(message)
            case Done() if (queue := self.queues.get(message.work)) and queue.done(message.item, host):
                for other in self.queues.values():  # which may have waited for this place
                    other.news.put_nowait(message if other is queue else None)
            case Left():
                host.told.discard(message.work)
                self.tell()
            case Notice():
                host.leaves = True
                for work in host.told:
                    host.link.post(Leave(work))

    def _bury(self, host: Placed) -> None:
        """A host is gone, and its items wait for another one."""
        if host not in self.there:
            return
        host.link.kill()
        self.there.remove(host)
        (self.left if host.leaves else self.lost)[host.link.name] += 1
        for (work, _), item in host.running.items():
            if self.queues[work].lost(item, host):
                self.queues[work].news.put_nowait(item)
        host.running.clear()
        self.tell()

    def tell(self) -> None:
        """There may be room."""
        for queue in self.queues.values():
            queue.news.put_nowait(None)

    async def leave(self, queue: Queue) -> None:
        """Nothing of it goes on anywhere when this returns; a host that does not say so in time is killed."""
        last = time.monotonic() + LEAVING
        for host in (told := [host for host in self.there if queue.number in host.told]):
            host.link.post(Leave(queue.number))
        while waiting := [host for host in told if host in self.there and queue.number in host.told]:
            try:
                async with asyncio.timeout(max(0.0, last - time.monotonic())):
                    await queue.news.get()
            except TimeoutError:
                for host in waiting:
                    self._bury(host)
        for host in told:
            host.running = {key: item for key, item in host.running.items() if key[0] != queue.number}
        del self.queues[queue.number]


def _names(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in counted.items())
