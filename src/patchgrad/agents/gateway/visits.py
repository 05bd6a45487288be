"""Programs that ask a policy outside of attempts: each session has its streams, and what it may ask in all.

"fix it"                                   a stream begins
"fix it", our answer, its result           the stream goes on after the ids that were sampled
"fix it", our answer, another result       another stream goes on after the same ids: a fork
"fix that"                                 another stream begins
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from patchgrad.agents.gateway.calls import read
from patchgrad.agents.gateway.dialects import Sampled
from patchgrad.agents.gateway.history import ChatRequest, Told, beginning, later, longest
from patchgrad.contracts import Policy
from patchgrad.errors import ContextFault
from patchgrad.values import Action, Ids, Sampling, ids

_STREAMS, _SESSIONS = 64, 4096


class Spent(Exception):
    """The session has had what it may have, in a sentence."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one session may have: answers, sampled tokens, and seconds from its first question."""

    calls: float = inf
    tokens: float = inf
    seconds: float = inf


@dataclass(frozen=True, slots=True)
class _Stream:
    """What was said up to an answer, and its ids `[T]`; `name` is that of the policy's session."""

    name: str
    told: Told
    ids: Ids
    last: Action


class Visit:
    """One session. Its answers are sampled under seeds that count them."""

    def __init__(self, name: str, policy: Policy, sampling: Sampling, allowance: Allowance) -> None:
        self._name, self._policy, self._sampling, self._allowance = name, policy, sampling, allowance
        self._began = time.monotonic()
        self._streams: dict[int, _Stream] = {}  # by the number of the answer, the oldest first
        self._calls, self._tokens = 0, 0.0

    def count(self, request: ChatRequest) -> int:
        """How many ids a request has."""
        return len(self._policy.encode(beginning(request), None))

    async def answer(self, request: ChatRequest) -> Sampled:
        """Raises `Spent`, `ContextFault` where there is no room for an answer, and `PolicyFault`."""
        self._check()
        number, self._calls = self._calls, self._calls + 1
        granted = min(self._sampling.max_tokens, self._allowance.tokens - self._tokens)
        self._tokens += granted  # until it is known how many it takes: others may ask meanwhile
        try:
            sampled = await self._sampled(request, number, int(granted))
        except BaseException:
            self._tokens -= granted
            raise
        self._tokens += sampled.action.tokens - granted
        return sampled

    async def _sampled(self, request: ChatRequest, number: int, most: int) -> Sampled:
        name, tokens = self._standing(request, number)
        room = self._policy.context - len(tokens)
        if room < 1:
            raise ContextFault(f"The request has {len(tokens)} tokens, and the context {self._policy.context}.")
        sampling = replace(self._sampling, seed=self._sampling.seed + number, max_tokens=min(most, room))
        action = await self._policy.act(name, tokens, sampling)
        sampled = Sampled(read(action.text), action, tokens, number)
        told = Told(number, (*request.said, sampled.said), request.tools)
        self._keep(_Stream(name, told, np.concatenate([tokens, action.token_ids]), action))
        return sampled

    def close(self) -> None:
        """The policy may forget its streams."""
        for name in {stream.name for stream in self._streams.values()}:
            self._policy.release(name)
        self._streams.clear()

    def _check(self) -> None:
        allowed, seconds = self._allowance, time.monotonic() - self._began
        told = ((self._calls, allowed.calls, "answers"), (self._tokens, allowed.tokens, "tokens"), (seconds, allowed.seconds, "seconds"))
        for had, most, name in told:
            if had >= most:
                raise Spent(f"This session has had its {most:g} {name}.")

    def _standing(self, request: ChatRequest, number: int) -> tuple[str, Ids]:
        """The policy's session for a request, and all its ids: those of the longest stream that it goes on with come first."""
        told = longest(request, (stream.told for stream in self._streams.values()))
        if told is None:
            return f"{self._name}#{number}", ids(self._policy.encode(beginning(request), None))
        stream = self._streams[told.number]
        return stream.name, np.concatenate([stream.ids, ids(self._policy.encode(later(request.said, told.said), stream.last))])

    def _keep(self, stream: _Stream) -> None:
        self._streams[stream.told.number] = stream
        if len(self._streams) > _STREAMS:
            gone = self._streams.pop(next(iter(self._streams)))
            if all(one.name != gone.name for one in self._streams.values()):
                self._policy.release(gone.name)


class Visits:
    """All sessions by their names. Streams are kept of those that were asked last, and what a session has had of all."""

    def __init__(self, policy: Policy, sampling: Sampling, allowance: Allowance) -> None:
        self._given = policy, sampling, allowance
        self._all: dict[str, Visit] = {}
        self._lately: OrderedDict[str, Visit] = OrderedDict()

    def of(self, name: str) -> Visit:
        """The session of a name, which begins when it is first asked for."""
        visit = self._lately[name] = self._all.setdefault(name, Visit(f"visit{len(self._all)}", *self._given))
        self._lately.move_to_end(name)
        if len(self._lately) > _SESSIONS:
            self._lately.popitem(last=False)[1].close()
        return visit

    def close(self) -> None:
        """Ends all of them."""
        for visit in self._lately.values():
            visit.close()
