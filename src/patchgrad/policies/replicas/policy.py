"""Several policies as one: replicas in other processes, on this machine or on others, under the same weights."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from patchgrad.contracts import Weights
from patchgrad.errors import ContextFault
from patchgrad.links.kept import KeptFolder
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.policies.publications import Publications
from patchgrad.policies.replicas.fleet import PATIENT, Fleet, Opening, Patience
from patchgrad.policies.replicas.messages import Act
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.values import Action, Ids, Message, Sampling, stream_digest

VERSIONS = 2
"""Publications that are kept: a replica that reads one goes on while the next is written."""


class ReplicatedPolicy:
    """Answers as one of its replicas would: they are made alike, and which of them is asked changes nothing that is drawn.

    A session stays at a replica as long as that has room (`routing`). `load` publishes the weights as files in memory, and returns when
    every replica that serves has them; replicas that act drain one after the other, and the others go on meanwhile. A replica that is lost
    is made anew and loads the newest weights before it is asked (`fleet`). Its events have a thread of their own.
    """

    def __init__(
        self,
        opened: Opening,
        count: int,
        maker: str,
        options: Mapping[str, Any],
        *,
        model: tuple[DecoderConfig, Weights, ChatTokenizer],
        untied: bool = False,
        patience: Patience = PATIENT,
    ) -> None:
        config, weights, self._tokenizer = model
        self._eos = self._tokenizer.eos | frozenset(config.eos)
        self._context, self._version = int(options["context"]), 0
        self._home = KeptFolder("patchgrad-weights-", sum(weight.nbytes for weight in weights.values()))
        self._publications = Publications(self._home.path, config, self._tokenizer, untied=untied)
        first = self._publications.publish(weights, 0)
        self._fleet = Fleet(opened, maker, options, first, patience)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="replicas", daemon=True)
        self._thread.start()
        try:
            self._wait(self._fleet.start(count))
        except BaseException:
            self.close()
            raise

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
        return self._tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        """Samples one turn. Raises `ContextFault` when the stream leaves no room in the context, `PolicyFault` where no replica answers."""
        sampling.check()
        if not 0 < len(tokens) < self._context:
            raise ContextFault(f"a stream of {len(tokens)} tokens leaves nothing to sample in a context of {self._context}")
        asked = self._fleet.act(Act(session, tokens, sampling), stream_digest(tokens))
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self._loop))

    def release(self, session: str) -> None:
        """Its replica forgets a session's cache."""
        self._loop.call_soon_threadsafe(self._fleet.release, session)

    def load(self, weights: Weights, version: int) -> None:
        """Publishes weights, and returns when the replicas sample under them; `PolicyFault` where none is left that could."""
        self._wait(self._fleet.take_over(self._publications.publish(weights, version)))
        self._version = version
        self._publications.keep(VERSIONS)

    def close(self) -> None:
        """Ends the replicas, and takes the publications away."""
        if self._thread.is_alive():
            self._wait(self._fleet.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._home.close()

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()
