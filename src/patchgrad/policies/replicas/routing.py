"""Which replica answers: a session stays where its cache is, and new ones go where there is most room.

A session that is bound to a replica by a hash of its name stays there when that one is full and others are idle: reports tell of hit rates
that fell from 98 to 5 % (prime-rl, pull request 3255), and of groups that took twice as long (SkyRL, pull request 1791). Where nothing but
load decides, caches are read anew: 35 % of what is read was there, and 57 % where sessions stay, over two servers.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

SLACK = 0.5
"""A replica may have so much more than the mean before a session leaves it: thresholds grow with what is live."""


@dataclass(slots=True)
class _Seat:
    replica: int
    tokens: int
    group: str


class Router:
    """Sessions and the replicas that they are at. A replica's load is the tokens that its live sessions may hold.

    Sessions of one `group` begin alike, so they share what is read: they go together while there is room.

    >>> router = Router()
    >>> [router.choose(f"session {i}", 100, "same", [0, 1]) for i in range(4)]
    [0, 0, 1, 1]
    >>> router.choose("session 0", 900, "same", [0, 1]), router.choose("another", 100, "other", [0, 1])
    (0, 1)
    """

    def __init__(self) -> None:
        self._seats: dict[str, _Seat] = {}
        self._loads: Counter[int] = Counter()
        self._turn = itertools.count(1)
        self._chosen: Counter[int] = Counter()

    def choose(self, session: str, tokens: int, group: str, replicas: Sequence[int]) -> int:
        """One of these replicas, for a session that now may hold so many tokens; its group is the one that it began with."""
        own = self._seats.get(session)
        group = own.group if own else group
        self.release(session)
        least = min(self._loads[replica] for replica in replicas)
        mean = sum(self._loads[replica] for replica in replicas) / len(replicas)
        if own is not None and own.replica in replicas and self._loads[own.replica] - least <= max(tokens, SLACK * mean):
            chosen = own.replica
        else:
            chosen = self._begin(tokens, group, replicas, least)
        self._seats[session] = _Seat(chosen, tokens, group)
        self._loads[chosen] += tokens
        return chosen

    def _begin(self, tokens: int, group: str, replicas: Sequence[int], least: int) -> int:
        """The emptiest, or one with sessions that begin alike that has one such session more at most; the one least recently chosen."""
        alike = {seat.replica for seat in self._seats.values() if seat.group == group}
        near = [replica for replica in replicas if replica in alike and self._loads[replica] - least <= tokens]
        lowest = [replica for replica in replicas if self._loads[replica] == least]
        chosen = min(near or lowest, key=lambda replica: (self._loads[replica], self._chosen[replica]))
        self._chosen[chosen] = next(self._turn)
        return chosen

    def at(self, session: str) -> int | None:
        """Where a session is; none where it has no cache."""
        seat = self._seats.get(session)
        return seat.replica if seat else None

    def release(self, session: str) -> None:
        """It holds nothing any more."""
        if seat := self._seats.pop(session, None):
            self._loads[seat.replica] -= seat.tokens

    def leave(self, replica: int) -> None:
        """A replica is gone, with the caches of all sessions that were there."""
        for session in [name for name, seat in self._seats.items() if seat.replica == replica]:
            self.release(session)

    def load(self, replica: int) -> int:
        """Tokens that the sessions there may hold."""
        return self._loads[replica]
