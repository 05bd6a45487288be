"""Which host gets which item.

Items of one kin go to the host that had the first of them, as long as it has room: it remembers what these ask. Others go where most is
free. An item that lost hosts comes again before new ones; one that lost `SUSPECT` of them gets a host for itself.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchgrad.rollouts.executors.hosts.links import HostLink
from patchgrad.rollouts.executors.hosts.messages import Work

SUSPECT = 2
"""An item whose host was lost so often gets the next one for itself."""


@dataclass(slots=True, eq=False)
class Item:
    """An item on its way, and with how many hosts it was lost."""

    number: int
    value: Any
    kin: str
    lost: int = 0

    @property
    def suspect(self) -> bool:
        """Does it go alone?"""
        return self.lost >= SUSPECT


@dataclass(slots=True, eq=False)
class Placed:
    """A host as it is seen from here: what it was told of, and what it runs by the numbers of work and item.

    One that `leaves` gets no more items.
    """

    link: HostLink
    told: set[int] = field(default_factory=set)
    running: dict[tuple[int, int], Item] = field(default_factory=dict)
    chosen: int = 0
    leaves: bool = False

    @property
    def free(self) -> int:
        """How many items it has room for."""
        alone = any(item.suspect for item in self.running.values())
        return 0 if alone or self.leaves else self.link.cells - len(self.running)


@dataclass(slots=True, eq=False)
class Queue:
    """The items of one work, what runs of them, and the news of it."""

    message: Work
    fresh: Iterator[Item]
    again: list[Item] = field(default_factory=list)
    exhausted: bool = False
    running: int = 0
    news: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    homes: dict[str, Placed] = field(default_factory=dict)
    _turns: Iterator[int] = field(default_factory=itertools.count)

    @property
    def number(self) -> int:
        """The work's."""
        return self.message.work

    @property
    def waits(self) -> bool:
        """Are there items that have not begun?"""
        return bool(self.again) or not self.exhausted

    def placed(self, hosts: Sequence[Placed]) -> tuple[Item, Placed] | None:
        """The next item and its host, where one has room; it runs from now on."""
        if all(item.suspect for item in self.again):
            fresh = next(self.fresh, None)
            self.exhausted = fresh is None
            self.again += [] if fresh is None else [fresh]
        for item in self.again:
            if host := self._room(item, hosts):
                self.again.remove(item)
                return self._runs(item, host)
        return None

    def done(self, number: int, host: Placed) -> bool:
        """An item of it has ended on this host; did it run there?"""
        there = host.running.pop((self.number, number), None) is not None
        self.running -= there
        return there

    def lost(self, item: Item, host: Placed) -> bool:
        """Its host is gone. Is that the item's doing? It is where the host had nothing but it, and others were lost with it before.

        It never is where the host had said that it leaves.
        """
        blamed = item.suspect and not host.leaves
        self.running -= 1
        self.homes.pop(item.kin, None)
        item.lost += not host.leaves
        if not blamed:
            self.again.append(item)
        return blamed

    def _room(self, item: Item, hosts: Sequence[Placed]) -> Placed | None:
        room = [host for host in hosts if host.free > 0]
        if item.suspect:
            return next((host for host in room if not host.running), None)
        home = self.homes.get(item.kin) if item.kin else None
        return home if home in room else max(room, key=lambda host: (host.free, -host.chosen), default=None)

    def _runs(self, item: Item, host: Placed) -> tuple[Item, Placed]:
        self.homes.setdefault(item.kin, host)
        host.chosen = next(self._turns)
        host.running[self.number, item.number] = item
        self.running += 1
        return item, host
