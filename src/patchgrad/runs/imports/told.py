"""An attempt as a file of others tells it, whatever the format."""

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


@dataclass(frozen=True, slots=True)
class Told:
    """What was said in each of its `streams`, and what became of it. `solved` is unknown where the file does not say.

    `ended` is how it ended, in the words of its file. `usage` is what a server counted of each answer, where it is told of all of them.
    Where messages are `spelt`, each is all that the policy wrote, and its calls are what was read in it.
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


def said(messages: Sequence[Mapping[str, Any]]) -> tuple[Said, ...]:
    """Messages under the names of OpenAI or of Anthropic, to the letter. Raises `StoreError` for what is no text, such as an image."""
    try:
        found = chat.request({"messages": list(messages)}).said
        return tuple(replace(one, content=text(message.get("content"))) for one, message in zip(found, messages, strict=True))
    except BadRequest as error:
        try:
            return blocks.request({"messages": list(messages)}).said
        except BadRequest:
            raise StoreError(str(error)) from error


def first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first of these columns that says something; a dot goes into a table: `first(row, ["resolved", "info.resolved"])`."""
    for name in names:
        found: Any = row
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None and found != "":
            return found
    return None


def truth(value: Any) -> bool | None:
    """Is it solved? `1`, `1.0`, `true` and `"resolved"` say yes, zeros and the like no, and anything else says nothing."""
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in ("true", "1", "resolved", "solved", "pass", "passed") else (False if word in FALSE else None)
    return bool(value == 1) if isinstance(value, bool | int | float) else None


FALSE = ("false", "0", "unresolved", "not resolved", "failed", "fail")
