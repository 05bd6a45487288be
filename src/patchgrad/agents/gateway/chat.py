"""The dialect of `/v1/chat/completions`: what a request says, and an answer as a JSON object or, where it was asked for, as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from patchgrad.agents.gateway.calls import Answered
from patchgrad.agents.gateway.history import ChatRequest, Said
from patchgrad.values import Action

MODEL = "patchgrad"
ROLES: Mapping[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class BadRequest(ValueError):
    """A request that cannot be answered, in a sentence for the program that asked."""


def request(body: Any) -> ChatRequest:
    """What is asked; `BadRequest` for what no policy here can answer, such as images or several answers.

    Temperature, length and the like are the recipe's: what a program asks for of these is not heard.
    """
    if not isinstance(body, dict):
        raise BadRequest("The body of a request is a JSON object.")
    if body.get("n") not in (None, 1):
        raise BadRequest("One answer is given to a request: leave n out.")
    messages, tools = body.get("messages"), body.get("tools") or []
    if not isinstance(messages, list) or not messages:
        raise BadRequest("A request has a list of messages.")
    if not isinstance(tools, list) or any(not isinstance(tool, dict) or tool.get("type") != "function" for tool in tools):
        raise BadRequest("Tools are functions that the program calls itself; a server's own tools are not here.")
    return ChatRequest(tuple(_said(message) for message in messages), tuple(tools))


def _said(message: Any) -> Said:
    role = ROLES.get(str(message.get("role"))) if isinstance(message, dict) else None
    if role is None:
        raise BadRequest(f"A message is an object with one of the roles {', '.join(ROLES)}.")
    try:
        called = [(one["function"]["name"], _canonical(one["function"]["arguments"])) for one in message.get("tool_calls") or []]
    except (KeyError, TypeError):
        raise BadRequest("A call of a tool has a function with a name and arguments.") from None
    return Said(role, _text(message.get("content")), tuple(called), str(message.get("tool_call_id") or ""))


def _text(content: Any) -> str:
    """The text of a message, which may come in parts."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [content]
    if any(not isinstance(part, dict) or not isinstance(part.get("text"), str) for part in parts):
        raise BadRequest("Messages are text alone; images, sound and files cannot be read here.")
    return "".join(part["text"] for part in parts)


def _canonical(arguments: Any) -> str:
    """Arguments in one spelling, since a client may spell JSON anew: `'{"a":1}'` and `'{"a": 1}'` are the same."""
    if not isinstance(arguments, str):
        return json.dumps(arguments, ensure_ascii=False)
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except ValueError:
        return arguments


def said(answered: Answered) -> Said:
    """An answer as a program's history will tell it."""
    call = answered.call
    return Said("assistant", answered.content, ((call.name, call.text),) if call else ())


def message(answered: Answered, number: int) -> dict[str, Any]:
    """An answer as a message; the ids of calls count the answers of an attempt."""
    told: dict[str, Any] = {"role": "assistant", "content": answered.content or None}
    if answered.call is not None:
        function = {"name": answered.call.name, "arguments": answered.call.text}
        told["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    return told


def answer(answered: Answered, action: Action, read: int, number: int) -> dict[str, Any]:
    """The whole answer, with the ids that were sampled; `read` is the count of those before them."""
    finish = "length" if action.finish == "length" else "tool_calls" if answered.call else "stop"
    choice = {"index": 0, "message": message(answered, number), "finish_reason": finish, "token_ids": action.token_ids.tolist()}
    usage = {"prompt_tokens": read, "completion_tokens": action.tokens, "total_tokens": read + action.tokens}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice], "usage": usage}


def streamed(whole: Mapping[str, Any]) -> Iterator[str]:
    """The same answer as server-sent events: all of the message in one piece, how it ended, what it took, and the end."""
    choice = whole["choices"][0]
    called = [{"index": number, **call} for number, call in enumerate(choice["message"].get("tool_calls", []))]
    delta = {**choice["message"], **({"tool_calls": called} if called else {})}
    for choices, more in _pieces(delta, choice["finish_reason"], whole["usage"]):
        told = {**{name: whole[name] for name in ("id", "created", "model")}, "object": "chat.completion.chunk", "choices": choices, **more}
        yield f"data: {json.dumps(told)}\n\n"
    yield "data: [DONE]\n\n"


def _pieces(delta: Any, finish: str, usage: Any) -> Sequence[tuple[list[Any], dict[str, Any]]]:
    return (
        ([{"index": 0, "delta": delta, "finish_reason": None}], {}),
        ([{"index": 0, "delta": {}, "finish_reason": finish}], {}),
        ([], {"usage": usage}),
    )


def refusal(sentence: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """A refusal as clients of this dialect read it."""
    return {"error": {"message": sentence, "type": kind, "param": None, "code": None}}
