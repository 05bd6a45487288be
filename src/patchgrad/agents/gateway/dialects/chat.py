"""The dialect of `/v1/chat/completions`: what a request says, and an answer as a JSON object or, where it was asked for, as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from patchgrad.agents.gateway.dialects.parts import MODEL, BadRequest, Sampled, canonical, function, objects, text, whole
from patchgrad.agents.gateway.history import ChatRequest, Said

ROLES: Mapping[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def request(body: Any) -> ChatRequest:
    """What is asked; `BadRequest` for what no policy here can answer, such as images or several answers.

    Temperature, length and the like are the recipe's: what a program asks for of these is not heard.
    """
    body = whole(body)
    if body.get("n") not in (None, 1):
        raise BadRequest("One answer is given to a request: leave n out.")
    messages = objects(body, "messages")
    if not messages:
        raise BadRequest("A request has a list of messages.")
    tools = objects(body, "tools")
    functions = [tool.get("function") for tool in tools if tool.get("type") == "function"]
    told = [function(one.get("name"), one.get("description"), one.get("parameters")) for one in functions if isinstance(one, dict)]
    details = bool(body.get("return_token_ids") or body.get("logprobs"))
    return ChatRequest(tuple(_said(message) for message in messages), tuple(told), details, bool(tools))


def _said(message: Mapping[str, Any]) -> Said:
    role = ROLES.get(str(message.get("role")))
    if role is None:
        raise BadRequest(f"A message is an object with one of the roles {', '.join(ROLES)}.")
    try:
        called = [(one["function"]["name"], canonical(one["function"]["arguments"])) for one in message.get("tool_calls") or []]
    except (KeyError, TypeError):
        raise BadRequest("A call of a tool has a function with a name and arguments.") from None
    content = text(message.get("content"))
    return Said(role, content.strip() if role == "assistant" else content, tuple(called), str(message.get("tool_call_id") or ""))


def answer(given: Sampled) -> dict[str, Any]:
    """The whole answer, with the ids that were sampled. The ids of calls count the answers of an attempt."""
    answered, action, number = given.answered, given.action, given.number
    told: dict[str, Any] = {"role": "assistant", "content": answered.content or None}
    if answered.call is not None:
        named = {"name": answered.call.name, "arguments": answered.call.text}
        told["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": named}]
    finish = "length" if given.cut else "tool_calls" if answered.call else "stop"
    choice = {"index": 0, "message": told, "finish_reason": finish, **given.ids}
    usage = {"prompt_tokens": given.read, "completion_tokens": action.tokens, "total_tokens": given.read + action.tokens}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice], "usage": usage}


def detailed(given: Sampled) -> dict[str, Any]:
    """The answer with the ids before it, and the log-probability of each token, which is named by its id as vLLM names it."""
    told, action = answer(given), given.action
    pairs = zip(action.token_ids.tolist(), action.logprobs.tolist(), strict=True)
    tokens = [{"token": f"token_id:{id}", "logprob": logprob, "bytes": None, "top_logprobs": []} for id, logprob in pairs]
    told["choices"][0] |= {"logprobs": {"content": tokens}}
    return {**told, "prompt_token_ids": given.prompt.tolist()}


def streamed(given: Sampled) -> Iterator[str]:
    """The same answer as server-sent events: all of the message in one piece, how it ended, what it took, and the end."""
    return _streamed(answer(given))


def streamed_detailed(given: Sampled) -> Iterator[str]:
    """The detailed answer as server-sent events: the ids before it come with the first, as vLLM sends them."""
    return _streamed(detailed(given))


def _streamed(told: Mapping[str, Any]) -> Iterator[str]:
    choice = told["choices"][0]
    called = [{"index": number, **call} for number, call in enumerate(choice["message"].get("tool_calls", []))]
    delta = {**choice["message"], **({"tool_calls": called} if called else {})}
    sampled = {name: choice[name] for name in ("logprobs", "token_ids") if name in choice}
    before = {name: told[name] for name in ("prompt_token_ids",) if name in told}
    pieces: tuple[tuple[list[Any], dict[str, Any]], ...] = (
        ([{"index": 0, "delta": delta, "finish_reason": None, **sampled}], before),
        ([{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}], {}),
        ([], {"usage": told["usage"]}),
    )
    for choices, more in pieces:
        piece = {**{name: told[name] for name in ("id", "created", "model")}, "object": "chat.completion.chunk", "choices": choices, **more}
        yield f"data: {json.dumps(piece)}\n\n"
    yield "data: [DONE]\n\n"


def refusal(sentence: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """A refusal as clients of this dialect read it."""
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}
