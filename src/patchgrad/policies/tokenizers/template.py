"""A chat template, rendered as transformers renders it, and what it adds behind a turn of the assistant's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from patchgrad.errors import ConfigError, NotAccepted
from patchgrad.policies.tokenizers.rendering import render
from patchgrad.values import Message

SLOT = "Slot{}Content"  # the content of a message while a row of roles is tried
_TURNS = [[Message("user", f"Question{i}Before"), Message("assistant", f"Answer{i}Before")] for i in range(9)]
_SYSTEM = Message("system", "SystemBefore")
_HISTORIES = [[*first, *(message for turn in _TURNS[:depth] for message in turn)] for first in ([], [_SYSTEM]) for depth in (1, 2, 9)]
"""What may lie before the messages that are encoded, with a system message and without, early and late."""


class ChatTemplate:
    """A template's `text` and the `variables` that it is rendered with, `eos_token` for one.

    Messages are rendered with their own contents, so whatever a template does to a content is done. Each row of roles is tried first, with
    contents that stand out: a template that drops one, or that writes another stream than one that only grows, is a `ConfigError`.
    """

    def __init__(self, text: str, variables: Mapping[str, str]) -> None:
        self.text, self.variables = text, dict(variables)
        self._tried: dict[tuple[bool, tuple[str, ...]], list[Message]] = {}

    def opening(self, messages: Sequence[Message]) -> str:
        """The whole conversation, with the assistant's turn opened."""
        self._try(messages, suffix=False)
        return self._render(messages)

    def suffix(self, messages: Sequence[Message]) -> str:
        """What follows the content of an assistant's turn: its end, these messages, and the next turn opened."""
        history = self._try(messages, suffix=True)
        return _behind(history[-1], self._render([*history, *messages]))

    def ending(self) -> str:
        """What follows the content of an assistant's turn that is the last."""
        history = self._try([Message("user", "")], suffix=True)
        return _behind(history[-1], self._render(history, opens=False))

    @cached_property
    def lead(self) -> str:
        """The blanks that stand between an opened turn and its content, which the assistant writes itself: Mistral's has one."""
        history = self._try([Message("user", "")], suffix=True)
        return self._lead(history, self._render(history, opens=False))

    def whole(self, message: Message) -> str:
        """A conversation from its beginning that the template accepts, whose last message this is."""
        return self._render([*self._try([message], suffix=True), message])

    def _try(self, messages: Sequence[Message], *, suffix: bool) -> list[Message]:
        """A history after which messages of these roles are rendered, an empty one for an opening; each row of roles is tried once."""
        key = (suffix, tuple(message.role for message in messages))
        if key not in self._tried:
            probes = [Message(message.role, SLOT.format(i)) for i, message in enumerate(messages)]
            history = self._history(probes) if suffix else []
            text = self._render([*history, *probes])
            for probe in probes:
                _behind(probe, text)
            self._tried[key] = history
        return self._tried[key]

    def _history(self, probes: Sequence[Message]) -> list[Message]:
        """One that the template accepts. What it writes behind it begins with the prompt, and is the same behind every other.

        Then a stream can be appended to whose beginning is not looked at again.
        """
        accepted: dict[tuple[str, str], list[Message]] = {}
        refusals: list[NotAccepted] = []
        for history in _HISTORIES:
            try:
                accepted.setdefault(self._grown(history, probes), history)
            except NotAccepted as refusal:
                refusals.append(refusal)
        if not accepted:
            raise refusals[0]
        if len(accepted) > 1:
            raise ConfigError(
                "the chat template writes a turn differently behind other turns, so a stream cannot be appended to: use another"
            )
        return next(iter(accepted.values()))

    def _grown(self, history: Sequence[Message], probes: Sequence[Message]) -> tuple[str, str]:
        """What is written before and behind the content of a history's last turn, which answered a prompt."""
        text = self._render([*history, *probes])
        added = _behind(history[-1], text)
        return self._lead(history, text), added

    def _lead(self, history: Sequence[Message], text: str) -> str:
        prompt, content = self._render(history[:-1]), history[-1].content
        lead, _, _ = text.removeprefix(prompt).partition(content)
        if not text.startswith(prompt) or lead.strip():
            raise ConfigError("the chat template rewrites earlier turns, so a stream cannot be appended to: use another template")
        return lead

    def _render(self, messages: Sequence[Message], *, opens: bool = True) -> str:
        return render(self.text, messages, self.variables, opens=opens)


def _behind(message: Message, text: str) -> str:
    """What stands behind a content."""
    _, found, behind = text.partition(message.content)
    if not found:
        raise ConfigError(f"the chat template drops the content of messages of the role {message.role}: use another template")
    return behind
