"""An attempt as a file of others tells it, whatever the format, and how the values of its columns are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchgrad.agents.gateway.dialects import chat
from patchgrad.agents.gateway.dialects import messages as blocks
from patchgrad.agents.gateway.dialects.parts import BadRequest, text
from patchgrad.agents.gateway.history import Said
from patchgrad.errors import StoreError
from patchgrad.values import Usage

BLOCKS = ("tool_use", "tool_result")
"""Parts of a message that Anthropic's names alone have."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was said in each of its `streams`, and what became of it. `solved` is unknown where the file does not say.

    `ended` is how it ended, in the words of its file. `usage` is what a server counted of each answer, where it is told of all of them.
    Where messages are `spelt`, each is all that the policy wrote, and its calls are what was read in it. One that `goes_on` is another
    stream of the attempt before it. The first `replayed` answers are those of the attempt `origin`.
    """

    task: str
    attempt: str
    streams: tuple[tuple[Said, ...], ...]
    policy: str = ""
    solved: bool | None = None
    submission: str = ""
    ended: str = ""
    instruction: str = ""
    usage: tuple[Usage, ...] = ()
    spelt: bool = False
    goes_on: bool = False
    replayed: int = 0
    origin: str = ""


def said(messages: Sequence[Mapping[str, Any]]) -> tuple[Said, ...]:
    """Messages under the names of OpenAI or of Anthropic, to the letter. Raises `StoreError` for what is no text, such as an image."""
    body = {"messages": list(messages)}
    try:
        if any(isinstance(part, Mapping) and part.get("type") in BLOCKS for message in messages for part in _parts(message)):
            found = blocks.request(body).said
        else:
            found = tuple(
                replace(one, content=text(message.get("content"))) for one, message in zip(chat.request(body).said, messages, strict=True)
            )
    except BadRequest as error:
        raise StoreError(str(error)) from error
    if any(not isinstance(name, str) for one in found for name, _ in one.calls):
        raise StoreError("a call names its tool by something else than a text")
    return found


def _parts(message: Mapping[str, Any]) -> Sequence[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def thinking(thought: Any, content: Any) -> Any:
    """A message with what a model thought apart before what it said, in the tags that Qwen3 has for it; in parts where it has parts."""
    if not isinstance(thought, str) or not thought:
        return content
    told = f"<think>\n{thought}\n</think>\n\n"
    return [{"type": "text", "text": told}, *content] if isinstance(content, list) else f"{told}{content or ''}"


def context(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a policy read and did not say itself, such as a demonstration, as one message to it."""
    return {"role": "user", "content": "\n".join(text(message.get("content")) for message in messages)}


def values(row: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """What these columns say, as far as they are there; a dot goes into a table: `values(row, ["resolved", "info.resolved"])`."""
    found = []
    for name in names:
        value: Any = row
        for part in name.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        found += [] if value is _ABSENT else [value]
    return found


_ABSENT = object()


def word(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first of these columns that is a text or a whole number, as text; empty where none is."""
    told = (str(value) for value in values(row, names) if isinstance(value, str) or type(value) is int)
    return next((value for value in told if value), "")


def solved(row: Mapping[str, Any], names: Sequence[str]) -> bool | None:
    """What the first of these columns says that says something."""
    return next((told for told in map(truth, values(row, names)) if told is not None), None)


def truth(value: Any) -> bool | None:
    """Is it solved? 1 says yes, as a number, as text or as `true` and the like; what is from 0 to below 1 says no, all else says nothing.

    A part of a reward is no success, as in Harbor.
    """
    if isinstance(value, str):
        name = value.strip().lower()
        if name in WORDS:
            return WORDS[name]
        try:
            value = float(name)
        except ValueError:
            return None
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return bool(value == 1)


YES = ("true", "resolved", "solved", "pass", "passed")
NO = ("false", "unresolved", "not resolved", "failed", "fail")
WORDS = {**dict.fromkeys(YES, True), **dict.fromkeys(NO, False)}
