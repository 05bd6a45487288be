"""Several policies as one: replicas in other processes, on this machine or on others, under the same weights."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from patchgrad.contracts import Weights
from patchgrad.errors import ContextFault
from patchgrad.links.kept import KeptFolder
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.policies.publications import Publications
from patchgrad.policies.replicas.aside import Aside
from patchgrad.policies.replicas.lives import Lives, Made
from patchgrad.policies.replicas.messages import Act
from patchgrad.policies.replicas.present import PATIENT, Patience, Present
from patchgrad.policies.replicas.questions import Questions
from patchgrad.policies.replicas.updates import Updates
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.values import Action, Ids, Message, Sampling, stream_digest

VERSIONS = 2
"""Publications that are kept: a replica that reads one goes on while the next is written."""


class ReplicatedPolicy:
    """Answers as one of its replicas would: they are made alike, and which of them is asked changes nothing that is drawn.

    A session stays at a replica as long as that has room (`routing`). `load` publishes the weights as files in memory, and returns when
    every replica that serves has them; replicas that act drain one after the other, and the others go on meanwhile. Where weights change
    within an action nobody drains. A replica that is lost
    is made anew and loads the newest weights before it is asked (`lives`). Its events have a thread of their own.
    """

    def __init__(
        self,
        made: Made,
        count: int,
        model: tuple[DecoderConfig, Weights, ChatTokenizer],
        *,
        context: int,
        untied: bool = False,
        patience: Patience = PATIENT,
    ) -> None:
        config, weights, self._tokenizer = model
        self._stops = self._tokenizer.eos | frozenset(config.eos)
        self._context, self._version = context, 0
        self._home = KeptFolder("patchgrad-weights-", sum(weight.nbytes for weight in weights.values()))
        self._publications = Publications(self._home.path, config, self._tokenizer, untied=untied)
        present = Present(count, self._publications.publish(weights, 0), patience, made.within)
        self._updates = Updates(present)
        self._questions = Questions(present, self._updates)
        self.lives = Lives(present, self._updates, made, self._questions.leave)
        self._aside = Aside("replicas")
        try:
            self._aside.begin(self.lives.start()).result()
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
        return self._stops

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        return self._tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        """Samples one turn. Raises `ContextFault` when the stream leaves no room in the context, `PolicyFault` where no replica answers."""
        sampling.check()
        if not 0 < len(tokens) < self._context:
            raise ContextFault(f"a stream of {len(tokens)} tokens leaves nothing to sample in a context of {self._context}")
        asked = self._questions.act(Act(session, tokens, sampling), stream_digest(tokens))
        return await asyncio.wrap_future(self._aside.begin(asked))

    def release(self, session: str) -> None:
        """Its replica forgets a session's cache."""
        self._aside.call(self._questions.release, session)

    def load(self, weights: Weights, version: int) -> None:
        """Publishes weights, and returns when the replicas sample under them; `PolicyFault` where none is left that could."""
        self._aside.begin(self._updates.take_over(self._publications.publish(weights, version))).result()
        self._version = version
        self._publications.keep(VERSIONS)

    def close(self) -> None:
        """Ends the replicas, and takes the publications away."""
        if not self._aside.over:
            self._aside.begin(self._updates.close()).result()
            self._aside.begin(self.lives.close()).result()
            self._aside.close()
        self._home.close()
