"""What is known of each session's stream: a slot of the cache, and a row of every array beside it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from patchgrad.values import Ids, common

DONORS = 32  # recent sessions that are asked for the same stream


class Streams:
    """Of the `length` tokens of a session's stream `known` have keys and values in the cache.

    Where there is no free slot, the session that acted longest ago gives its own. `live` are always the slots in which somebody draws.
    """

    def __init__(self, cache: Any, sessions: int, context: int) -> None:
        self.cache = cache
        self.slots: dict[str, int] = {}  # in the order in which they acted last
        self.free = list(range(sessions))
        self.tokens = np.zeros((sessions, context), np.int32)
        self.length, self.known = np.zeros(sessions, np.int64), np.zeros(sessions, np.int64)

    def open(self, session: str, tokens: Ids, live: Collection[int]) -> int:
        """The slot of a session that goes on with these tokens; what the cache has of them is known."""
        size = len(tokens)
        slot = self.slots.pop(session) if session in self.slots else self._claim(live)
        self.slots[session] = slot
        self.known[slot] = self.cache.cut(slot, min(common(self.tokens[slot, : self.known[slot]], tokens), size - 1))
        self.tokens[slot, :size], self.length[slot] = tokens, size
        return slot

    def idle(self, live: Collection[int]) -> str | None:
        """Of the sessions that do not draw the one that acted longest ago."""
        return next((name for name, slot in self.slots.items() if slot not in live), None)

    def forget(self, session: str | None = None) -> None:
        """Drops one session's cache, or all: the next turn runs the whole stream again."""
        for name in [session] if session is not None else list(self.slots):
            if name in self.slots:
                self.cache.cut(self.slots[name], 0)
                self.free.append(self.slots.pop(name))

    def reread(self, live: Collection[int]) -> None:
        """Nothing is known of any stream; those that draw are kept, and run again from their beginning."""
        for name, slot in list(self.slots.items()):
            if slot in live:
                self.known[slot] = self.cache.cut(slot, 0)
            else:
                self.forget(name)

    def take_over(self, slot: int, live: Collection[int]) -> bool:
        """What another slot has of the same stream is copied and not run again; false while it is about to have more."""
        slots = list(self.slots.values())
        donors = slots[: slots.index(slot)][-DONORS:]
        known, tokens = int(self.known[slot]), self.tokens[slot, : self.length[slot] - 1]
        lengths = [common(self.tokens[donor, : self.length[donor]], tokens) for donor in donors]
        if (length := max(lengths, default=0)) > known:
            donor = donors[lengths.index(length)]
            if donor in live and self.known[donor] < length:
                return False
            if (there := min(length, int(self.known[donor]))) > known:
                self.known[slot] = self.cache.copy(slot, donor, known, there)
        return True

    def _claim(self, live: Collection[int]) -> int:
        """A free slot, taken from the session that acted longest ago if there is none."""
        if not self.free:
            self.forget(next(name for name, slot in self.slots.items() if slot not in live))
        slot = self.free.pop()
        self.known[slot] = 0
        return slot
