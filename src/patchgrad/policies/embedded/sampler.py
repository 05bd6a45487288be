"""Continuous batching on one thread: streams join and leave between two tokens, sessions keep their cache between turns.

    waiting -> admit -> step (read what the cache lacks, at most `READ` tokens at once), step (draw), step, ... -> Drawn

A step runs one token of each stream that draws and, beside them, the next tokens of those that still have some to read. Keys and values
lie in a session's slot and stay there; attempts that do alike take over what another's slot has of the same stream. The last sampled
token is never run: the next turn runs it together with its observation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.lanes import Places
from patchgrad.policies.embedded.draws import Drawn, Draws, Request
from patchgrad.policies.embedded.streams import Streams
from patchgrad.values import Ids

READ = 2048  # tokens that are read at once


class Reader(Protocol):
    """A network that reads on where it was: `networks.cached` on a CPU, `networks.device` on a GPU."""

    @property
    def config(self) -> DecoderConfig: ...
    @property
    def length(self) -> int: ...
    def cache(self, slots: int) -> Any: ...
    def run(self, cache: Any, tokens: Ids, slots: Places, positions: Places, wanted: Places) -> Tensor: ...
    def refill(self, weights: Mapping[str, Tensor]) -> None: ...


class Sampler:
    """Draws for up to `rows` sessions at once and remembers up to `sessions`; not thread-safe, one thread owns it.

    A session has a slot: a row of each array. Of the `length` tokens of its stream `known` have keys and values; what is left runs in the
    next step, one token of a stream that draws. Where the cache has no room for it, idle sessions are forgotten, then the turn that began
    last is `postponed`: it begins again when another has ended, and draws with the same numbers.
    """

    def __init__(self, decoder: Reader, *, sessions: int, rows: int, eos: frozenset[int]) -> None:
        self.decoder, self.rows = decoder, min(rows, sessions)
        self.streams = Streams(decoder.cache(sessions), sessions, decoder.length)
        self.draws = Draws(sessions, decoder.length, np.isin(np.arange(decoder.config.vocabulary), list(eos)))
        self.live: dict[int, Request] = {}  # by slot, in the order in which they joined
        self.postponed: list[Request] = []

    @property
    def room(self) -> int:
        """How many requests could join now."""
        return self.rows - len(self.live) - len(self.postponed)

    @property
    def busy(self) -> bool:
        """Is a turn under way?"""
        return bool(self.live or self.postponed)

    def acting(self) -> set[str]:
        """Sessions whose turn is under way."""
        return {request.session for request in (*self.live.values(), *self.postponed)}

    def forget(self, session: str | None = None) -> None:
        """Drops one session's cache, or all: the next turn runs the whole stream again."""
        self.streams.forget(session)

    def renew(self, version: int) -> None:
        """The decoder has other weights: nothing is left of what the old ones read, and turns under way go on under the new ones."""
        self.streams.reread(self.live)
        self.draws.renew(version, self.streams, self.live)

    def reset(self) -> None:
        """Drops everything, turns under way included."""
        self.live.clear()
        self.postponed.clear()
        self.forget()

    def admit(self, requests: Iterable[Request]) -> None:
        """Takes in at most `room` requests."""
        for request in requests:
            slot = self.streams.open(request.session, request.tokens, self.live)
            self.live[slot] = request
            self.draws.begin(slot, request)

    def step(self) -> list[Drawn]:
        """Runs the next tokens of every stream, and draws one more where none is left; returns the turns that ended."""
        where, places = self._next()
        while not self._fits(where, places):
            where, places = self._next()
        self.streams.known[where] = places + 1  # the last of a stream's places stays
        last = np.flatnonzero(self.streams.length[where] == places + 1)
        logits = self.decoder.run(self.streams.cache, self.streams.tokens[where, places], where, places, last)
        self.draws.draw(self.streams, where[last], logits, self.live)
        finished = self.draws.ended(self.streams, where[last], self.live)
        if self.postponed and (finished or not self.live):
            self.admit([self.postponed.pop()])
        return finished

    def _next(self) -> tuple[Places, Places]:
        """Slots and positions of the tokens to run, those of a slot side by side: first of streams that draw, then of others."""
        length, known = self.streams.length, self.streams.known
        live = np.fromiter(self.live, np.int64, len(self.live))
        left = length[live] - known[live]
        drawing = live[left == 1]
        slots, positions, size = [drawing], [known[drawing]], len(drawing)
        for slot in live[left > 1].tolist():
            if size < READ and self.streams.take_over(slot, self.live):
                first = int(known[slot])
                count = min(int(length[slot]) - first, READ - size)
                slots.append(np.full(count, slot))
                positions.append(np.arange(first, first + count))
                size += count
        return np.concatenate(slots), np.concatenate(positions)

    def _fits(self, where: Places, places: Places) -> bool:
        """Has the cache room for these tokens? If not, there is one session less in it."""
        last = np.flatnonzero(np.diff(where, append=-1))
        if self.streams.cache.grow(where[last], places[last] + 1):
            return True
        name = self.streams.idle(self.live)
        if name is None:
            if len(self.live) == 1:
                raise MemoryError("the cache has no room for one stream of this length")
            self.postponed.append(self.live.popitem()[1])
            name = self.postponed[-1].session
        self.forget(name)
        return False
