"""What programs of others speak, by the path that they ask: each reads a request and writes an answer, whole or as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchgrad.agents.gateway.calls import loaded
from patchgrad.agents.gateway.dialects import chat, messages, responses
from patchgrad.agents.gateway.dialects.parts import MODEL, BadRequest, Sampled
from patchgrad.agents.gateway.history import ChatRequest

__all__ = ["COUNT", "WIRES", "LONGEST", "MODELS", "Sampled", "Posted", "BadRequest", "Wire", "HttpAnswer", "posted", "refused", "wire_of"]

COUNT = "/v1/messages/count_tokens"
"""Asks how many tokens a request has, and no answer."""

NO_IDS_THERE = "The policy tells text alone, so there are no ids and no log-probabilities: leave return_token_ids and logprobs out."
LONGEST = 64 * 2**20
"""Bytes of a request."""


@dataclass(frozen=True, slots=True)
class Wire:
    """`request` raises `BadRequest`; `refusal(sentence, kind)` is how this dialect says no."""

    request: Callable[[Any], ChatRequest]
    answer: Callable[[Sampled], Mapping[str, Any]]
    streamed: Callable[[Sampled], Iterator[str]]
    refusal: Callable[[str, str], Mapping[str, Any]]


_CHAT = Wire(chat.request, chat.answer, chat.streamed, chat.refusal)
_DETAILED = Wire(chat.request, chat.detailed, chat.streamed_detailed, chat.refusal)
_MESSAGES = Wire(messages.request, messages.answer, messages.streamed, messages.refusal)
WIRES: Mapping[str, Wire] = {
    "/v1/chat/completions": _CHAT,
    "/v1/responses": Wire(responses.request, responses.answer, responses.streamed, responses.refusal),
    "/v1/messages": _MESSAGES,
    COUNT: _MESSAGES,
}


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer of HTTP."""

    status: int
    body: str
    kind: str = "application/json"


MODELS = HttpAnswer(200, json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}]}))
"""The one model that there is."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A request, and how its answer is to be written."""

    request: ChatRequest
    wire: Wire
    stream: bool

    def reply(self, given: Sampled) -> HttpAnswer:
        """The answer as it was asked for."""
        if self.request.details and not given.action.trainable:
            return HttpAnswer(400, json.dumps(self.wire.refusal(NO_IDS_THERE, "invalid_request_error")))
        wire = _DETAILED if self.request.details else self.wire
        if self.stream:
            return HttpAnswer(200, "".join(wire.streamed(given)), "text/event-stream")
        return HttpAnswer(200, json.dumps(wire.answer(given)))


def posted(path: str, body: bytes | str) -> Posted | HttpAnswer:
    """What a request of a path asks, or why it cannot be answered."""
    wire = wire_of(path)
    try:
        said = loaded(body if isinstance(body, str) else body.decode())
        return Posted(wire.request(said), wire, said.get("stream") is True)
    except BadRequest as error:
        return refused(path, str(error), 400)
    except (ValueError, RecursionError):
        return refused(path, "The body of a request is a JSON object.", 400)
    except (TypeError, KeyError, AttributeError):
        return refused(path, "A part of the request is of another type than the dialect has.", 400)


def refused(path: str, sentence: str, status: int, kind: str = "invalid_request_error") -> HttpAnswer:
    """A refusal in the dialect of a path."""
    return HttpAnswer(status, json.dumps(wire_of(path).refusal(sentence, kind)))


def wire_of(path: str) -> Wire:
    """What is spoken at a path."""
    return WIRES.get(path, _CHAT)
