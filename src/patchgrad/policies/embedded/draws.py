"""Drawing: one token more for each of some streams, by numbers that each turn has of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from patchgrad.networks.lanes import Places
from patchgrad.policies.embedded.streams import Streams
from patchgrad.values import Ids, Sampling, ids


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
    spans: tuple[tuple[int, int], ...]  # a version of the weights, and the first token that it drew


class Draws:
    """What was drawn in each slot since its turn began, under which version of the weights, and what there is to draw with."""

    def __init__(self, sessions: int, context: int, eos: npt.NDArray[np.bool_]) -> None:
        self.told = np.zeros(sessions, np.int64)  # length of the request
        self.limit = np.zeros(sessions, np.int64)  # length of the longest answer
        self.bent = np.zeros(sessions, bool)  # not drawn from the plain softmax
        self.logprobs = np.zeros((sessions, context), np.float32)
        self.uniform = np.zeros((sessions, context), np.float32)
        self.eos = eos  # by token
        self.version = 0
        self.spans: dict[int, list[tuple[int, int]]] = {}  # by slot

    def begin(self, slot: int, request: Request) -> None:
        """A turn begins in this slot."""
        self.told[slot] = len(request.tokens)
        self.limit[slot], self.bent[slot] = request.limit, not request.sampling.neutral
        self.spans[slot] = [(self.version, 0)]
        random = np.random.Generator(np.random.Philox(key=request.sampling.seed % 2**128))
        self.uniform[slot, : request.limit] = random.random(request.limit)

    def renew(self, version: int, streams: Streams, live: Collection[int]) -> None:
        """Other weights draw from now on, in the turns under way, too."""
        self.version = version
        for slot in live:
            start = int(streams.length[slot] - self.told[slot])
            self.spans[slot] = [span for span in self.spans[slot] if span[1] < start] + [(version, start)]

    def draw(self, streams: Streams, slots: Places, logits: Tensor, live: Mapping[int, Request]) -> None:
        """Inverse-CDF draws from each stream's softmax with its own uniform numbers, so that neighbours change nothing.

        A number that was rounded up to 1 gives the last token that has a chance.
        """
        logs = torch.log_softmax(logits, -1)
        cumulative = logs.exp().cumsum(-1)
        for place in np.flatnonzero(self.bent[slots]).tolist():
            history = streams.tokens[slots[place], : streams.length[slots[place]]]
            cumulative[place] = shaped(logits[place], live[slots[place]].sampling, history).cumsum(-1)
        count = streams.length[slots] - self.told[slots]
        whole = cumulative[:, -1:].contiguous()
        uniform = torch.from_numpy(self.uniform[slots, count]).to(logits.device).unsqueeze(-1) * whole
        last = torch.searchsorted(cumulative, whole).clamp_(max=logits.shape[-1] - 1)
        token = torch.searchsorted(cumulative, uniform, right=True).minimum(last)
        logprobs, chosen = logs.gather(-1, token)[:, 0].cpu().numpy(), token[:, 0].cpu().numpy()
        if not np.isfinite(logprobs).all():
            raise FloatingPointError("the network's log-probabilities are not finite")
        streams.tokens[slots, streams.length[slots]] = chosen
        self.logprobs[slots, count] = logprobs
        streams.length[slots] += 1

    def ended(self, streams: Streams, slots: Places, live: dict[int, Request]) -> list[Drawn]:
        """The turns that ended or ran out of room among those that drew; they are no longer `live`."""
        stopped = self.eos[streams.tokens[slots, streams.length[slots] - 1]]
        done = np.flatnonzero(stopped | (streams.length[slots] - self.told[slots] >= self.limit[slots]))
        finished = []
        for slot in slots[done].tolist():
            request, drawn = live.pop(slot), ids(streams.tokens[slot, self.told[slot] : streams.length[slot]].copy())
            logprobs = self.logprobs[slot, : len(drawn)].copy()
            finished.append(Drawn(request, drawn, logprobs, bool(self.eos[drawn[-1]]), tuple(self.spans.pop(slot))))
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
