"""The embedded policy: asynchronous requests from many sessions, a few threads that each answer some of them together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import torch

from patchgrad.contracts import Weights
from patchgrad.errors import ConfigError, ContextFault
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.device import DeviceDecoder
from patchgrad.networks.products import supported
from patchgrad.networks.rounding import Precision
from patchgrad.policies.embedded.draws import Drawn, Request
from patchgrad.policies.embedded.lane import Lane
from patchgrad.policies.embedded.sampler import Reader, Sampler
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.values import Action, Ids, Message, Origin, Sampling, floats, stream_digest

CACHED = 1 << 24
"""Numbers of a network that a processor's caches hold while it draws; a guess at the middle of what there is."""


class EmbeddedPolicy:
    """Answers up to `rows` sessions at once and keeps the cache of `sessions` between their turns.

    Consumes `act`; waits for nothing but its own threads. Each of `threads` has its sessions and a share of the places, and what it draws
    for one depends on no other, so their number changes nothing (`networks.products.exact`). A network whose weights no cache holds is read
    from memory once for all sessions, by one lane whose products the threads share: two lanes would read it twice. `load` waits until the
    actions under way have ended; where weights change `within` an action it waits for a token alone, has the streams read again under the
    new weights, and the action's `spans` tell which tokens are whose. Log-probabilities are those of the policy's own softmax, whatever the
    sampling. With `room`, bytes for caches, it draws on the network's device, a GPU for one; without it on the CPU, by code that is
    compiled for it. Products are in this `precision`, on a CPU where it is supported (`networks.products`).
    """

    def __init__(
        self,
        network: Decoder,
        tokenizer: ChatTokenizer,
        *,
        sessions: int,
        context: int,
        rows: int = 256,
        threads: int = 1,
        room: int = 0,
        precision: Precision = "float32",
        within: bool = False,
    ) -> None:
        if not room and network.head.device.type != "cpu":
            raise ConfigError(f"the network is on {network.head.device}: say how much room there is for caches")
        if tokenizer.vocabulary > network.config.vocabulary:
            raise ConfigError(f"the tokenizer has {tokenizer.vocabulary} ids and the network {network.config.vocabulary}")
        self._tokenizer = tokenizer
        self._context, self._version = context, 0
        shared = not room and sum(parameter.numel() for parameter in network.parameters()) > CACHED
        lanes = 1 if shared else threads
        self._decoder: Reader = (
            DeviceDecoder(network, context, room // threads, getattr(torch, precision))
            if room
            else CachedDecoder(network, context, supported(precision), threads // lanes)
        )
        self._eos = tokenizer.eos | frozenset(network.config.eos)
        each, places = -(-sessions // lanes), -(-rows // lanes)
        samplers = [Sampler(self._decoder, sessions=each, rows=places, eos=self._eos) for _ in range(lanes)]
        self._lanes = [Lane(sampler, self._action, threads // lanes, within) for sampler in samplers]
        self._homes: dict[str, Lane] = {}

    @property
    def version(self) -> int:
        return self._version

    @property
    def context(self) -> int:
        return self._context

    @property
    def tokenizer(self) -> ChatTokenizer:
        return self._tokenizer

    @property
    def stops(self) -> frozenset[int]:
        return self._eos

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        return self.tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        """Samples one turn. Raises `ContextFault` when the stream leaves no room in the context."""
        sampling.check()
        limit = min(sampling.max_tokens, self._context - len(tokens))
        if limit < 1 or not len(tokens):
            raise ContextFault(f"a stream of {len(tokens)} tokens leaves nothing to sample in a context of {self._context}")
        return await asyncio.wrap_future(self._home(session).ask(Request(session, tokens, sampling, limit)))

    def _action(self, drawn: Drawn) -> Action:
        """What was drawn, as a turn."""
        text = self.tokenizer.decode(drawn.tokens[: len(drawn.tokens) - drawn.stopped].tolist())
        origin = Origin(stream_digest(drawn.request.tokens), self.tokenizer.fingerprint)
        finish: Literal["stop", "length"] = "stop" if drawn.stopped else "length"
        spans = drawn.spans if len(drawn.spans) > 1 else ()
        return Action(drawn.tokens, floats(drawn.logprobs), drawn.spans[0][0], text, finish, origin=origin, spans=spans)

    def _home(self, session: str) -> Lane:
        """The thread that has a session's cache; for a new one, that with the fewest sessions."""
        if session not in self._homes:
            homes = Counter(map(id, self._homes.values()))
            self._homes[session] = min(self._lanes, key=lambda lane: homes[id(lane)])
        return self._homes[session]

    def release(self, session: str) -> None:
        """Forgets a session's cache; a session still acting is forgotten when it ends."""
        if lane := self._homes.pop(session, None):
            lane.release(session)

    def close(self) -> None:
        """Ends the threads when no action is under way any more."""
        for lane in self._lanes:
            lane.close()

    def load(self, weights: Weights, version: int) -> None:
        """Takes over weights in place and drops every cache; returns when no action goes on under the old ones."""
        waits = [lane.pause() for lane in self._lanes]
        try:
            for wait in waits:
                wait.result()
            with torch.inference_mode():
                self._decoder.refill(weights)
            for lane in self._lanes:
                lane.renew(version)
            self._version = version
        finally:
            for lane in self._lanes:
                lane.go_on()
