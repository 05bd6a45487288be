"""The embedded policy: asynchronous requests from many sessions, one thread that answers them together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import torch

from patchgrad.contracts import Weights
from patchgrad.errors import ConfigError, PolicyFault, SamplingRefused
from patchgrad.networks import folder
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder
from patchgrad.policies.embedded.sampler import Drawn, Request, Sampler
from patchgrad.policies.embedded.tokenizer import ChatTokenizer
from patchgrad.values import Action, Ids, Message, Origin, Sampling, floats, stream_digest

GATHER = 0.001  # seconds for which an idle worker lets requests come together


class EmbeddedPolicy:
    """Answers up to `rows` sessions at once and keeps the cache of `sessions` between their turns.

    Consumes `act`; waits for nothing but its own thread. Requests join and leave the running batch between two tokens. `load`
    waits until the actions under way have ended, because an action has one version. While `training` is true only neutral
    sampling is accepted. Log-probabilities are those of the policy's own softmax, whatever the sampling.
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
        training: bool = True,
    ) -> None:
        if tokenizer.vocabulary > network.config.vocabulary:
            raise ConfigError(f"the tokenizer has {tokenizer.vocabulary} ids and the network {network.config.vocabulary}")
        self.tokenizer, self.training = tokenizer, training
        self._context, self._version, self._threads = context, 0, threads
        self._decoder = CachedDecoder(network, context)
        self._eos = tokenizer.eos | frozenset(network.config.eos)
        self._sampler = Sampler(self._decoder, sessions=sessions, rows=rows, eos=self._eos)
        self._worker = ThreadPoolExecutor(1, "policy", initializer=torch.set_num_threads, initargs=(threads,))
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Request, Future[Action]]] = deque()
        self._released: list[str] = []
        self._futures: dict[int, Future[Action]] = {}  # by identity of the request that is being answered
        self._running, self._paused = False, 0

    @classmethod
    def from_folder(
        cls, source: str | Path, *, sessions: int, context: int, rows: int = 256, threads: int = 1, training: bool = True
    ) -> EmbeddedPolicy:
        """Opens a checkpoint folder or a hub id."""
        path = folder.locate(source)
        network, tokenizer = folder.load(path), ChatTokenizer.load(path)
        return cls(network, tokenizer, sessions=sessions, context=context, rows=rows, threads=threads, training=training)

    @property
    def version(self) -> int:
        return self._version

    @property
    def context(self) -> int:
        return self._context

    @property
    def spelling(self) -> str:
        return self.tokenizer.spelling

    @property
    def stops(self) -> frozenset[int]:
        return self._eos

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        return self.tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        """Samples one turn. Raises `PolicyFault` when the stream leaves no room in the context."""
        if self.training and not sampling.neutral:
            raise SamplingRefused("training takes only neutral sampling (temperature 1, nothing cut): set training=False to evaluate")
        limit = min(sampling.max_tokens, self._context - len(tokens))
        if limit < 1 or not len(tokens):
            raise PolicyFault(f"a stream of {len(tokens)} tokens leaves nothing to sample in a context of {self._context}")
        future: Future[Action] = Future()
        with self._lock:
            self._waiting.append((Request(session, tokens, sampling, limit), future))
            self._start()
        return await asyncio.wrap_future(future)

    def release(self, session: str) -> None:
        """Forgets a session's cache; a session still acting is forgotten when it ends."""
        with self._lock:
            self._released.append(session)

    def load(self, weights: Weights, version: int) -> None:
        """Takes over weights in place and drops every cache; returns when no action runs under the old ones."""
        with self._lock:
            self._paused += 1
        try:
            self._worker.submit(self._refill, weights, version).result()
        finally:
            with self._lock:
                self._paused -= 1
                self._start()

    def _refill(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        with torch.inference_mode():
            self._decoder.refill({name: tensor.detach() for name, tensor in weights.items()})
        self._sampler.forget()
        self._version = version

    def _start(self) -> None:
        """Called with the lock held."""
        if self._waiting and not self._running and not self._paused:
            self._running = True
            self._worker.submit(self._answer)

    def _answer(self) -> None:
        """Runs on the worker until nothing lives and nothing may join."""
        self._gather()
        with torch.inference_mode():
            while True:
                try:
                    joining = self._joining()
                    if joining:
                        self._deliver(self._sampler.admit(joining))
                    if self._sampler.alive.any():
                        self._deliver(self._sampler.step())
                except Exception as error:  # whatever broke, each waiting session must hear of it
                    self._fail(error)
                with self._lock:
                    if not self._sampler.alive.any() and (self._paused or not self._waiting):
                        self._running = False
                        return

    def _gather(self) -> None:
        count = -1
        while count != len(self._waiting):
            count = len(self._waiting)
            time.sleep(GATHER)

    def _joining(self) -> list[Request]:
        acting = self._sampler.acting()
        joining: list[Request] = []
        with self._lock:
            for session in [name for name in self._released if name not in acting]:
                self._sampler.forget(session)
            self._released = [name for name in self._released if name in acting]
            room = 0 if self._paused else self._sampler.room
            for _ in range(len(self._waiting) if room else 0):
                request, future = self._waiting.popleft()
                if len(joining) == room or request.session in acting:  # a session's second request waits for its first
                    self._waiting.append((request, future))
                elif future.set_running_or_notify_cancel():
                    acting.add(request.session)
                    self._futures[id(request)] = future
                    joining.append(request)
        return joining

    def _deliver(self, finished: Sequence[Drawn]) -> None:
        for drawn in finished:
            text = self.tokenizer.decode(drawn.tokens[: len(drawn.tokens) - drawn.stopped].tolist())
            finish = "stop" if drawn.stopped else "length"
            origin = Origin(stream_digest(drawn.request.tokens), self.tokenizer.spelling)
            action = Action(drawn.tokens, floats(drawn.logprobs), self._version, text, finish, origin=origin)  # type: ignore[arg-type]
            self._futures.pop(id(drawn.request)).set_result(action)

    def _fail(self, error: Exception) -> None:
        self._sampler.reset()
        for future in self._futures.values():
            future.set_exception(PolicyFault(f"the embedded policy broke: {type(error).__name__}: {error}"))
        self._futures.clear()
