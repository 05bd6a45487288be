"""What all dialects share: an answer before it is put into one, refusals, and the parts of a message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchgrad.agents.gateway.calls import Answered, loaded
from patchgrad.agents.gateway.history import Said
from patchgrad.values import Action, Ids

MODEL = "patchgrad"


class BadRequest(ValueError):
    """A request that cannot be answered, in a sentence for the program that asked."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a policy said: as a program is to read it, and as it was sampled after the ids of the `prompt`.

    `number` counts the answers before it.
    """

    answered: Answered
    action: Action
    prompt: Ids = field(compare=False)
    number: int

    @property
    def read(self) -> int:
        """How many ids the policy has read."""
        return len(self.prompt)

    @property
    def ids(self) -> dict[str, Any]:
        """The ids that were sampled, as every dialect tells them; nothing where a policy tells text alone, whose ids only spell it."""
        return {"token_ids": self.action.token_ids.tolist()} if self.action.trainable else {}

    @property
    def said(self) -> Said:
        """The answer as a program's history will tell it."""
        call = self.answered.call
        return Said("assistant", self.answered.content.strip(), ((call.name, canonical(call.text)),) if call else ())

    @property
    def cut(self) -> bool:
        """Did it reach its greatest length?"""
        return self.action.finish == "length"


def objects(body: Any, name: str) -> list[Mapping[str, Any]]:
    """The objects that a request lists under a name. Raises `BadRequest` for anything else."""
    found = body.get(name) or []
    if not isinstance(found, list) or any(not isinstance(one, dict) for one in found):
        raise BadRequest(f"The {name} of a request are a list of objects.")
    return found


def whole(body: Any) -> Mapping[str, Any]:
    """The body of a request. Raises `BadRequest` for what is no object."""
    if not isinstance(body, dict):
        raise BadRequest("The body of a request is a JSON object.")
    return body


def text(content: Any, ignored: Sequence[str] = ()) -> str:
    """The text of a message, which may come in parts; parts of the kinds `ignored` are none. Raises `BadRequest` for what is no text."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    kept = [part for part in parts if not (isinstance(part, dict) and part.get("type") in ignored)]
    if any(not isinstance(part, dict) or not isinstance(part.get("text"), str) for part in kept):
        raise BadRequest("Messages are text alone; images, sound and files cannot be read here.")
    return "".join(part["text"] for part in kept)


def canonical(arguments: Any) -> str:
    """Arguments in one spelling, since a client may spell JSON anew: `'{"b":1,"a":2}'` and `'{"a": 2, "b": 1}'` are the same."""
    try:
        told = loaded(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    return json.dumps(told, ensure_ascii=False, sort_keys=True)


def function(name: Any, description: Any, parameters: Any) -> str:
    """A tool as a policy is told of it, in JSON, whichever dialect it came in. Raises `BadRequest` where it has no name."""
    if not isinstance(name, str) or not name:
        raise BadRequest("A tool has a name.")
    told = {"name": name, "description": description or "", "parameters": parameters or {}}
    return json.dumps({"type": "function", "function": told}, ensure_ascii=False)


def joined(said: Sequence[Said]) -> Iterator[Said]:
    """What was said, where an answer's words and its calls came one after another: they are one message."""
    last: Said | None = None
    for one in said:
        if last is not None and last.role == one.role == "assistant":
            last = Said("assistant", "\n".join(part for part in (last.content, one.content) if part), (*last.calls, *one.calls))
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def event(name: str, told: Mapping[str, Any]) -> str:
    """A server-sent event of a name, which its data say too."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **told})}\n\n"
