"""A policy that says given texts: for tests of everything around a policy, with real token ids and no model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from patchgrad.contracts import Weights
from patchgrad.errors import ContextFault, PolicyFault
from patchgrad.values import Action, Ids, Message, Origin, Sampling, floats, ids, stream_digest

MESSAGE, OPEN, STOP = 256, 257, 258  # bytes are 0..255; then: a message begins, the assistant's turn opens, a turn ends


class ByteTokenizer:
    """Bytes as ids, so that any text round-trips; a message is framed by ids above them."""

    fingerprint = "bytes"
    vocabulary = STOP + 1
    eos = frozenset({STOP})

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        parts = [STOP] if previous is not None and previous.finish == "length" else []
        for message in messages:
            parts += [MESSAGE, *f"{message.role}\n{message.content}".encode(), STOP]
        return ids([*parts, OPEN])

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token for token in tokens if token < MESSAGE).decode(errors="replace")

    def save(self, folder: Path) -> None:
        """There is nothing to save."""


class ScriptedPolicy:
    """Says `script[n]`, or `script(session, n)`, as a session's n-th action; raises `PolicyFault` when the script has ended.

    Ids are bytes, so any text round-trips. Every log-probability is 0: a scripted policy is certain. It says what comes
    after the actions that are in the stream already, whoever asks and however often.
    """

    def __init__(self, script: Sequence[str] | Callable[[str, int], str], *, context: int = 1 << 20, delay: float = 0.0) -> None:
        self._script, self._context, self._delay = script, context, delay
        self._version = 0

    @property
    def version(self) -> int:
        return self._version

    @property
    def context(self) -> int:
        return self._context

    @property
    def tokenizer(self) -> ByteTokenizer:
        return ByteTokenizer()

    @property
    def stops(self) -> frozenset[int]:
        return self.tokenizer.eos

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        return self.tokenizer.encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        sampling.check()
        await asyncio.sleep(self._delay)
        limit = min(sampling.max_tokens, self._context - len(tokens))
        if limit < 1 or not len(tokens):
            raise ContextFault(f"a stream of {len(tokens)} tokens leaves nothing to sample in a context of {self._context}")
        turn = int(np.count_nonzero(tokens == OPEN)) - 1
        said = [*self._text(session, turn).encode(), STOP][:limit]
        stopped = said[-1] == STOP
        text = self.tokenizer.decode(said[: len(said) - stopped])
        origin = Origin(stream_digest(tokens), self.tokenizer.fingerprint)
        return Action(ids(said), floats(np.zeros(len(said))), self._version, text, "stop" if stopped else "length", origin=origin)

    def _text(self, session: str, turn: int) -> str:
        if callable(self._script):
            return self._script(session, turn)
        if turn >= len(self._script):
            raise PolicyFault(f"the script has {len(self._script)} actions and was asked for one more")
        return self._script[turn]

    def release(self, session: str) -> None:
        """Nothing is kept of it."""

    def close(self) -> None:
        """There is nothing to end."""

    def load(self, weights: Weights, version: int) -> None:
        self._version = version
