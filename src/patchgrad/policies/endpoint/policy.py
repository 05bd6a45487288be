"""A policy that a server answers for, under the names of OpenAI's chat completions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from patchgrad.endpoints import Chat
from patchgrad.errors import ConfigError, EndpointRefused
from patchgrad.policies.endpoint.framing import STOP, encode, read, spell
from patchgrad.values import Action, Floats, Ids, Message, Sampling, Usage, floats, ids

log = logging.getLogger(__name__)
NO_LOGPROBS: Floats = floats([])
_HELLO = (Message("user", "Answer with the word ready."),)
_FEW = 16  # tokens of the first answer, which only shows that the endpoint takes what it will be asked


@dataclass(frozen=True, slots=True)
class Dialect:
    """The parameters of sampling that a server takes, each sent with every question: what is left out would be the server's choice.

    vLLM takes top-k and others from a model's `generation_config.json` where the question is silent, which spoilt a training run of arXiv
    2508.03501 (section 5.2). A server that refuses a name has no such setting of its own either.
    """

    name: str
    limit: str
    extras: Mapping[str, Callable[[Sampling], float]]

    def parameters(self, sampling: Sampling) -> dict[str, float]:
        """What a question says about sampling; `ConfigError` for a setting that this dialect has no name for."""
        told = {"temperature": sampling.temperature, "top_p": sampling.top_p} | {
            name: setting(sampling) for name, setting in self.extras.items()
        }
        lost = [name for name in ("top_k", "min_p", "repetition_penalty") if name not in told and getattr(sampling, name) != NEUTRAL[name]]
        if lost:
            raise ConfigError(
                f"The endpoint takes no {lost[0]}, so {lost[0]} {getattr(sampling, lost[0]):g} cannot be had there: leave it out."
            )
        return told


NEUTRAL = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
_SEED: Mapping[str, Callable[[Sampling], float]] = {"seed": lambda sampling: sampling.seed % (1 << 31)}
_WHOLE: Mapping[str, Callable[[Sampling], float]] = {
    "top_k": lambda sampling: sampling.top_k or -1,
    "min_p": lambda sampling: sampling.min_p,
    "repetition_penalty": lambda sampling: sampling.repetition_penalty,
}
DIALECTS = (
    Dialect("vLLM, SGLang, llama.cpp", "max_tokens", {**_WHOLE, **_SEED}),
    Dialect("OpenAI", "max_completion_tokens", _SEED),
    Dialect("plain", "max_tokens", {}),
)
"""The most explicit first."""


class EndpointPolicy:
    """Asks a server for each action, with the whole conversation; keeps nothing between them.

    `context` counts tokens as the server does, which each answer tells; until the next answer what was added counts three bytes a token.
    It has no weights that could be loaded: its actions carry no log-probabilities (`Action.trainable`), and credit refuses them.
    """

    encode = staticmethod(encode)

    def __init__(self, chat: Chat, *, context: int, dialect: Dialect = DIALECTS[0]) -> None:
        self.dialect, self._chat, self._context, self._told = dialect, chat, context, set[str]()

    @classmethod
    async def open(cls, chat: Chat, *, context: int, sampling: Sampling) -> EndpointPolicy:
        """Asks once, so that a wrong address, key, model or setting is refused before anything starts, and finds the dialect."""
        for dialect in DIALECTS:
            try:
                await chat.ask(_HELLO, {**dialect.parameters(sampling), dialect.limit: _FEW})
            except EndpointRefused as refused:
                if dialect is DIALECTS[-1] or refused.status not in (400, 422):
                    raise
            else:
                return cls(chat, context=context, dialect=dialect)
        raise AssertionError("the last dialect is taken or refused")

    @property
    def version(self) -> int:
        return 0

    @property
    def context(self) -> int:
        return self._context

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        """One answer. Raises `ContextFault` where the server says that the conversation is too long."""
        sampling.check()
        asked = {**self.dialect.parameters(sampling), self.dialect.limit: sampling.max_tokens}
        answer = await self._chat.ask(read(tokens), asked)
        said = [*spell(answer.text), *([STOP] if answer.finish == "stop" else [])]
        usage = answer.usage or Usage(len(tokens), min(len(said), sampling.max_tokens))
        self._tell(answer.instead)
        return Action(ids(said), NO_LOGPROBS, self.version, answer.text, answer.finish, usage, instead=answer.instead)

    def _tell(self, instead: str) -> None:
        """Say once of each kind what an answer held instead of text, hours before the report does."""
        if instead and instead not in self._told:
            self._told.add(instead)
            log.warning("%s answered with %s; only text is read", self._chat.url, instead)

    def release(self, session: str) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to end: each question has a connection of its own."""
