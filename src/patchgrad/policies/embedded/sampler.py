"""Continuous batching on one thread: streams join and leave between two tokens, sessions keep their cache between turns.

    waiting -> admit -> step (read what the cache lacks, at most `READ` tokens at once), step (draw), step, ... -> Drawn

A step runs one token of each stream that draws and, beside them, the next tokens of those that still have some to read. Keys and values
lie in a session's slot and stay there; attempts that do alike take over what another's slot has of the same stream. The last sampled
token is never run: the next turn runs it together with its observation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.lanes import Places
from patchgrad.values import Ids, Sampling, common, ids

READ = 2048  # tokens that are read at once
DONORS = 32  # recent sessions that are asked for the same stream


@dataclass(frozen=True, slots=True)
class Request:
    """One action asked for: the whole stream, how to draw, and how many tokens there is room for."""

    session: str
    tokens: Ids
    sampling: Sampling
    limit: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn for a request, the end-of-turn id included."""

    request: Request
    tokens: Ids
    logprobs: npt.NDArray[np.float32]
    stopped: bool


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
        context = decoder.length
        self.decoder, self.rows = decoder, min(rows, sessions)
        self.cache = decoder.cache(sessions)
        self.slots: dict[str, int] = {}  # in the order in which they acted last
        self.free = list(range(sessions))
        self.live: dict[int, Request] = {}  # by slot, in the order in which they joined
        self.postponed: list[Request] = []
        self.stream = np.zeros((sessions, context), np.int32)
        self.length, self.known = np.zeros(sessions, np.int64), np.zeros(sessions, np.int64)
        self.told = np.zeros(sessions, np.int64)  # length of the request
        self.limit = np.zeros(sessions, np.int64)  # length of the longest answer
        self.bent = np.zeros(sessions, bool)  # not drawn from the plain softmax
        self.logprobs = np.zeros((sessions, context), np.float32)
        self.uniform = np.zeros((sessions, context), np.float32)
        self.eos = np.isin(np.arange(decoder.config.vocabulary), list(eos))

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
        for name in [session] if session is not None else list(self.slots):
            if name in self.slots:
                self.cache.cut(self.slots[name], 0)
                self.free.append(self.slots.pop(name))

    def reset(self) -> None:
        """Drops everything, turns under way included."""
        self.live.clear()
        self.postponed.clear()
        self.forget()

    def admit(self, requests: Iterable[Request]) -> None:
        """Takes in at most `room` requests."""
        for request in requests:
            tokens, size = request.tokens, len(request.tokens)
            slot = self.slots.pop(request.session) if request.session in self.slots else self._claim()
            self.slots[request.session], self.live[slot] = slot, request
            self.known[slot] = self.cache.cut(slot, min(common(self.stream[slot, : self.known[slot]], tokens), size - 1))
            self.stream[slot, :size], self.length[slot], self.told[slot] = tokens, size, size
            self.limit[slot], self.bent[slot] = request.limit, not request.sampling.neutral
            random = np.random.Generator(np.random.Philox(key=request.sampling.seed % 2**128))
            self.uniform[slot, : request.limit] = random.random(request.limit)

    def step(self) -> list[Drawn]:
        """Runs the next tokens of every stream, and draws one more where none is left; returns the turns that ended."""
        where, places = self._next()
        while not self._fits(where, places):
            where, places = self._next()
        self.known[where] = places + 1  # the last of a stream's places stays
        last = np.flatnonzero(self.length[where] == places + 1)
        self._draw(where[last], self.decoder.run(self.cache, self.stream[where, places], where, places, last))
        finished = self._leave(where[last])
        if self.postponed and (finished or not self.live):
            self.admit([self.postponed.pop()])
        return finished

    def _next(self) -> tuple[Places, Places]:
        """Slots and positions of the tokens to run, those of a slot side by side: first of streams that draw, then of others."""
        live = np.fromiter(self.live, np.int64, len(self.live))
        left = self.length[live] - self.known[live]
        drawing = live[left == 1]
        slots, positions, size = [drawing], [self.known[drawing]], len(drawing)
        for slot in live[left > 1].tolist():
            if size < READ and self._take_over(slot):
                known = int(self.known[slot])
                count = min(int(self.length[slot]) - known, READ - size)
                slots.append(np.full(count, slot))
                positions.append(np.arange(known, known + count))
                size += count
        return np.concatenate(slots), np.concatenate(positions)

    def _fits(self, where: Places, places: Places) -> bool:
        """Has the cache room for these tokens? If not, there is one session less in it."""
        last = np.flatnonzero(np.diff(where, append=-1))
        if self.cache.grow(where[last], places[last] + 1):
            return True
        name = next((name for name, slot in self.slots.items() if slot not in self.live), None)
        if name is None:
            if len(self.live) == 1:
                raise MemoryError("the cache has no room for one stream of this length")
            self.postponed.append(self.live.popitem()[1])
            name = self.postponed[-1].session
        self.forget(name)
        return False

    def _take_over(self, slot: int) -> bool:
        """What another slot has of the same stream is copied and not run again; false while it is about to have more."""
        slots = list(self.slots.values())
        donors = slots[: slots.index(slot)][-DONORS:]
        known, tokens = int(self.known[slot]), self.stream[slot, : self.length[slot] - 1]
        lengths = [common(self.stream[donor, : self.length[donor]], tokens) for donor in donors]
        if (length := max(lengths, default=0)) > known:
            donor = donors[lengths.index(length)]
            if donor in self.live and self.known[donor] < length:
                return False
            if (there := min(length, int(self.known[donor]))) > known:
                self.known[slot] = self.cache.copy(slot, donor, known, there)
        return True

    def _claim(self) -> int:
        """A free slot, taken from the session that acted longest ago if there is none."""
        if not self.free:
            acting = self.acting()
            self.forget(next(name for name in self.slots if name not in acting))
        slot = self.free.pop()
        self.known[slot] = 0
        return slot

    def _draw(self, slots: Places, logits: Tensor) -> None:
        """Inverse-CDF draws from each stream's softmax with its own uniform numbers, so that neighbours change nothing.

        A number that was rounded up to 1 gives the last token that has a chance.
        """
        logs = torch.log_softmax(logits, -1)
        cumulative = logs.exp().cumsum(-1)
        for place in np.flatnonzero(self.bent[slots]).tolist():
            history = self.stream[slots[place], : self.length[slots[place]]]
            cumulative[place] = shaped(logits[place], self.live[slots[place]].sampling, history).cumsum(-1)
        count = self.length[slots] - self.told[slots]
        whole = cumulative[:, -1:].contiguous()
        uniform = torch.from_numpy(self.uniform[slots, count]).to(logits.device).unsqueeze(-1) * whole
        last = torch.searchsorted(cumulative, whole).clamp_(max=logits.shape[-1] - 1)
        token = torch.searchsorted(cumulative, uniform, right=True).minimum(last)
        logprobs, chosen = logs.gather(-1, token)[:, 0].cpu().numpy(), token[:, 0].cpu().numpy()
        if not np.isfinite(logprobs).all():
            raise FloatingPointError("the network's log-probabilities are not finite")
        self.stream[slots, self.length[slots]] = chosen
        self.logprobs[slots, count] = logprobs
        self.length[slots] += 1

    def _leave(self, slots: Places) -> list[Drawn]:
        """The turns that ended or ran out of room among those that drew."""
        stopped = self.eos[self.stream[slots, self.length[slots] - 1]]
        done = np.flatnonzero(stopped | (self.length[slots] - self.told[slots] >= self.limit[slots]))
        finished = []
        for slot in slots[done].tolist():
            request, drawn = self.live.pop(slot), ids(self.stream[slot, self.told[slot] : self.length[slot]].copy())
            logprobs = self.logprobs[slot, : len(drawn)].copy()
            finished.append(Drawn(request, drawn, logprobs, bool(self.eos[drawn[-1]])))
        return finished


def shaped(logits: Tensor, sampling: Sampling, history: npt.NDArray[np.int32]) -> Tensor:
    """Probabilities `[V]` after repetition penalty, temperature (0: the best token), top-k, top-p and min-p, in that order."""
    values = logits.clone()
    if (penalty := sampling.repetition_penalty) != 1.0:
        seen = torch.from_numpy(np.unique(history).astype(np.int64)).to(logits.device)
        values[seen] = torch.where(values[seen] > 0, values[seen] / penalty, values[seen] * penalty)
    if sampling.temperature == 0.0:
        return torch.nn.functional.one_hot(values.argmax(), len(values)).float()
    values, order = torch.softmax(values / sampling.temperature, -1).sort(descending=True)
    before = values.cumsum(-1) - values
    keep = (before < sampling.top_p) & (values >= sampling.min_p * values[0])
    if sampling.top_k:
        keep[sampling.top_k :] = False
    return torch.zeros_like(values).scatter(0, order, values * keep)
