"""Continuous batching on one thread: rows join and leave between two tokens, sessions keep their cache between turns.

    waiting -> admit (prefill what the cache lacks, draw the first token) -> step, step, ... -> Action

A session's keys and values live in the store; while it acts they are copied into the working rows, which are dense, and what the
turn added is copied back at its end. The last sampled token is never run: the next turn runs it together with its observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from patchgrad.networks.cached import BLOCK, Cache, CachedDecoder, reach
from patchgrad.values import NO_IDS, Ids, Sampling, ids

PREFILL = 2048  # tokens that run through the dense layers at once
DONORS = 32  # recent sessions whose prefix a new one may take over
SPARSE = 0.7  # working rows are closed up when fewer than this share are alive


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


@dataclass(slots=True)
class Slot:
    """A session's place in the store and the ids whose keys and values it holds."""

    row: int
    tokens: Ids = field(default_factory=lambda: NO_IDS)


class Sampler:
    """Draws for up to `rows` sessions at once and remembers up to `sessions`; not thread-safe, one thread owns it."""

    def __init__(self, decoder: CachedDecoder, *, sessions: int, rows: int, eos: frozenset[int]) -> None:
        config, context = decoder.config, decoder.length
        self.decoder, self.rows = decoder, min(rows, sessions)
        self.store, self.work = Cache(config, sessions, context), Cache(config, self.rows, context)
        self.slots: dict[str, Slot] = {}  # least recently used first
        self.free = list(range(sessions))
        self.live: list[Request] = []
        self.alive = np.zeros(self.rows, bool)
        self.length = np.zeros(self.rows, np.int64)  # positions whose keys are in the working row
        self.count = np.zeros(self.rows, np.int64)
        self.limit = np.zeros(self.rows, np.int64)
        self.bent = np.zeros(self.rows, bool)  # not drawn from the plain softmax
        self.next = np.zeros(self.rows, np.int64)
        self.drawn = np.zeros((self.rows, context), np.int32)
        self.logprobs = np.zeros((self.rows, context), np.float32)
        self.uniform = np.zeros((self.rows, context), np.float32)
        self.columns = (self.alive, self.length, self.count, self.limit, self.bent, self.next, self.drawn, self.logprobs, self.uniform)
        self.mask = torch.full((self.rows, reach(context)), float("-inf"))
        self.eos = np.isin(np.arange(config.vocabulary), list(eos))

    @property
    def room(self) -> int:
        """How many requests could join now."""
        return self.rows - int(self.alive.sum())

    def acting(self) -> set[str]:
        """Sessions with a live row."""
        return {self.live[row].session for row in np.flatnonzero(self.alive[: len(self.live)]).tolist()}

    def forget(self, session: str | None = None) -> None:
        """Drops one session's cache, or all: the next turn runs the whole stream again."""
        for name in [session] if session is not None else list(self.slots):
            slot = self.slots.pop(name, None)
            if slot is not None:
                self.free.append(slot.row)

    def reset(self) -> None:
        """Drops everything, rows under way included, and what non-finite weights may have left behind."""
        self.live.clear()
        self.alive[:] = False
        self.forget()
        self.store.clear()
        self.work.clear()

    def admit(self, requests: Sequence[Request]) -> list[Drawn]:
        """Takes in at most `room` requests and draws the first token of each; returns those that are already finished."""
        self._close_up()
        requests = sorted(requests, key=lambda request: len(request.tokens))
        first, known = len(self.live), list[int]()
        leaders, followers = dict[bytes, int](), dict[int, int]()
        for row, request in enumerate(requests, first):
            known.append(self._open(row, request))
            key = request.tokens.tobytes()
            if leaders.setdefault(key, row) != row:
                followers[row] = leaders[key]
        logits = self._prefill([r for r in range(first, len(self.live)) if r not in followers], known, first)
        for row, leader in followers.items():
            self.work.copy(row, self.work, leader, 0, int(self.length[row]))
            logits[row] = logits[leader]
        self._draw(np.arange(first, len(self.live)), torch.stack([logits[row] for row in range(first, len(self.live))]))
        return self._leave()

    def step(self) -> list[Drawn]:
        """Draws one more token for every live row; returns those that finished."""
        count = len(self.live)
        positions = torch.from_numpy(self.length[:count])
        self.mask[torch.arange(count), positions] = 0.0
        reach = np.where(self.alive[:count], self.length[:count] + 1, 0)
        longest = np.maximum.reduceat(reach, np.arange(0, count, BLOCK)).tolist()
        logits = self.decoder.step(self.work, torch.from_numpy(self.next[:count]), positions, self.mask, longest)
        self.length[:count] += self.alive[:count]
        self._draw(np.arange(count), logits)
        return self._leave()

    def _open(self, row: int, request: Request) -> int:
        """Gives a request a working row and a slot; returns how many positions the cache already knows."""
        tokens, last = request.tokens, len(request.tokens) - 1
        slot = self.slots.pop(request.session, None)
        if slot is None:
            known = self._borrow(row, tokens)
            slot = self._claim()
        else:
            known = min(shared(slot.tokens, tokens), last)
            self.work.copy(row, self.store, slot.row, 0, known)
            slot.tokens = tokens[:known]
        self.slots[request.session] = slot
        self.live.append(request)
        self.alive[row], self.count[row], self.length[row] = True, 0, len(tokens)
        self.limit[row], self.bent[row] = request.limit, not request.sampling.neutral
        self.mask[row, : len(tokens)] = 0.0
        self.mask[row, len(tokens) :] = float("-inf")
        stream = np.random.Generator(np.random.Philox(key=request.sampling.seed % 2**128))
        self.uniform[row, : request.limit] = stream.random(request.limit)
        return known

    def _borrow(self, row: int, tokens: Ids) -> int:
        """A new session starts from the longest prefix that a recent one left in the store; returns its length."""
        recent = list(self.slots.values())[-DONORS:]
        lengths = [shared(slot.tokens, tokens[:-1]) for slot in recent]
        known = max(lengths, default=0)
        if known:
            self.work.copy(row, self.store, recent[lengths.index(known)].row, 0, known)
        return known

    def _claim(self) -> Slot:
        """A free place in the store, taken from the session that acted longest ago if there is none."""
        if not self.free:
            acting = self.acting()
            self.forget(next(name for name in self.slots if name not in acting))
        return Slot(self.free.pop())

    def _prefill(self, rows: Sequence[int], known: Sequence[int], first: int) -> dict[int, Tensor]:
        """Runs what the cache lacks, in groups of about `PREFILL` tokens; the logits after the last token of each row."""
        logits: dict[int, Tensor] = {}
        group: list[int] = []
        size = 0
        for row in rows:
            new = len(self.live[row].tokens) - known[row - first]
            if group and size + new > PREFILL:
                logits |= self._run(group, known, first)
                group, size = [], 0
            group.append(row)
            size += new
        return logits | self._run(group, known, first)

    def _run(self, group: Sequence[int], known: Sequence[int], first: int) -> dict[int, Tensor]:
        starts = [known[row - first] for row in group]
        tokens = [torch.from_numpy(self.live[row].tokens[start:].astype(np.int64)) for row, start in zip(group, starts, strict=True)]
        return dict(zip(group, self.decoder.prefill(self.work, group, starts, tokens), strict=True))

    def _draw(self, rows: npt.NDArray[np.int64], logits: Tensor) -> None:
        """Inverse-CDF draws from each row's softmax with the row's own uniform stream, so that neighbours change nothing."""
        logs = torch.log_softmax(logits, -1)
        cumulative = logs.exp().cumsum(-1)
        for place in np.flatnonzero(self.bent[rows] & self.alive[rows]).tolist():
            request, drawn = self.live[rows[place]], self.drawn[rows[place], : self.count[rows[place]]]
            history = np.concatenate([request.tokens, drawn])
            cumulative[place] = shaped(logits[place], request.sampling, history).cumsum(-1)
        uniform = torch.from_numpy(self.uniform[rows, self.count[rows]]).unsqueeze(-1) * cumulative[:, -1:]
        token = torch.searchsorted(cumulative, uniform, right=True).clamp_(max=logits.shape[-1] - 1)
        chosen, logprobs = token[:, 0].numpy(), logs.gather(-1, token)[:, 0].numpy()
        if not np.isfinite(logprobs[self.alive[rows]]).all():
            raise FloatingPointError("the network's log-probabilities are not finite")
        self.drawn[rows, self.count[rows]] = chosen
        self.logprobs[rows, self.count[rows]] = logprobs
        self.next[rows] = chosen
        self.count[rows] += self.alive[rows]

    def _leave(self) -> list[Drawn]:
        """Rows that ended a turn or ran out of room write what they added to their slot."""
        count = len(self.live)
        stopped = self.eos[self.next[:count]]
        done = np.flatnonzero(self.alive[:count] & (stopped | (self.count[:count] >= self.limit[:count])))
        finished = []
        for row in done.tolist():
            request, tokens = self.live[row], ids(self.drawn[row, : self.count[row]])
            slot, length = self.slots[request.session], int(self.length[row])
            self.store.copy(slot.row, self.work, row, len(slot.tokens), length)
            slot.tokens = np.concatenate([request.tokens, tokens[:-1]])
            logprobs = self.logprobs[row, : self.count[row]].copy()
            finished.append(Drawn(request, tokens, logprobs, bool(stopped[row])))
            self.alive[row] = False
        if self.alive[:count].sum() < SPARSE * count:
            self._close_up()
        return finished

    def _close_up(self) -> None:
        """Fills the places of finished rows with the last live ones."""
        alive = np.flatnonzero(self.alive[: len(self.live)])
        holes = np.flatnonzero(~self.alive[: len(alive)])
        for hole, row in zip(holes.tolist(), alive[len(alive) - len(holes) :].tolist(), strict=True):
            self.work.copy(hole, self.work, row, 0, int(self.length[row]))
            for array in self.columns:
                array[hole] = array[row]
            self.mask[hole] = self.mask[row]
            self.live[hole] = self.live[row]
        del self.live[len(alive) :]
        self.alive[len(alive) :] = False


def shared(left: Ids, right: Ids) -> int:
    """The length of the longest common prefix."""
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    return int(differs.argmax()) if differs.any() else size


def shaped(logits: Tensor, sampling: Sampling, history: npt.NDArray[np.int32]) -> Tensor:
    """Probabilities `[V]` after repetition penalty, temperature (0: the best token), top-k, top-p and min-p, in that order."""
    seen = torch.from_numpy(np.unique(history).astype(np.int64))
    values = logits.clone()
    values[seen] = torch.where(values[seen] > 0, values[seen] / sampling.repetition_penalty, values[seen] * sampling.repetition_penalty)
    if sampling.temperature == 0.0:
        return torch.nn.functional.one_hot(values.argmax(), len(values)).float()
    values, order = torch.softmax(values / sampling.temperature, -1).sort(descending=True)
    before = values.cumsum(-1) - values
    keep = (before < sampling.top_p) & (values >= sampling.min_p * values[0])
    if sampling.top_k:
        keep[sampling.top_k :] = False
    return torch.zeros_like(values).scatter(0, order, values * keep)
