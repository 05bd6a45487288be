"""The dialect of `/v1/messages`: blocks in place of calls and results. Claude Code speaks it.

A message of the system amid the others stays where it is. Thoughts of a model that thinks apart are none of what was said, and neither is
the line in which Claude Code names its version: some versions write another one in each request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from patchgrad.agents.gateway.dialects.parts import MODEL, BadRequest, Sampled, canonical, event, function, joined, objects, text, whole
from patchgrad.agents.gateway.history import ChatRequest, Said

ROLES: Mapping[str, Literal["system", "user", "assistant"]] = {"system": "system", "user": "user", "assistant": "assistant"}
ATTRIBUTION = "x-anthropic-billing-header:"
THOUGHTS = ("thinking", "redacted_thinking")


def request(body: Any) -> ChatRequest:
    """What is asked; `BadRequest` for what no policy here can answer, such as images.

    Tools that a request does not describe, as a type alone says what they take, are left out: a policy is not told of them.
    """
    body = whole(body)
    messages = objects(body, "messages")
    if not messages:
        raise BadRequest("A request has a list of messages.")
    told = _instructions(body.get("system"))
    system = [Said("system", told)] if told else []
    said = [one for message in messages for one in _said(message)]
    tools = objects(body, "tools")
    own = [tool for tool in tools if tool.get("type") in (None, "custom")]
    described = [function(tool.get("name"), tool.get("description"), tool.get("input_schema")) for tool in own]
    return ChatRequest(tuple(joined([*system, *said])), tuple(described), offers=bool(tools))


def _instructions(system: Any) -> str:
    """What the system says first, without a block that is meant for the server's accounts."""
    blocks = system if isinstance(system, list) else [system]
    kept = [block for block in blocks if not (isinstance(block, dict) and str(block.get("text")).startswith(ATTRIBUTION))]
    return text(kept if isinstance(system, list) else system)


def _said(message: Mapping[str, Any]) -> Iterator[Said]:
    """The results of tools that a message brings, and what it says."""
    role = ROLES.get(str(message.get("role")))
    if role is None:
        raise BadRequest(f"A message is an object with one of the roles {', '.join(ROLES)}.")
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": text(content)}]
    if any(not isinstance(block, dict) for block in blocks):
        raise BadRequest("The content of a message is text or a list of blocks.")
    results = [block for block in blocks if block.get("type") == "tool_result"]
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    if any(not isinstance(use.get("name"), str) for use in uses):
        raise BadRequest("A call of a tool has a name.")
    calls = tuple((use["name"], canonical(use.get("input") or {})) for use in uses)
    rest = text([block for block in blocks if block.get("type") not in ("tool_result", "tool_use")], THOUGHTS)
    for block in results:
        yield Said("tool", text(block.get("content")), (), str(block.get("tool_use_id") or ""))
    if rest or calls or not results:
        yield Said(role, rest.strip() if role == "assistant" else rest, calls)


def answer(given: Sampled) -> dict[str, Any]:
    """The whole answer, with the ids that were sampled."""
    answered, action, number = given.answered, given.action, given.number
    content: list[dict[str, Any]] = [{"type": "text", "text": answered.content}] if answered.content else []
    if answered.call is not None:
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": answered.call.name, "input": dict(answered.call.arguments)})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": "max_tokens" if given.cut else "tool_use" if answered.call else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": given.read, "output_tokens": action.tokens},
        **given.ids,
    }


def streamed(given: Sampled) -> Iterator[str]:
    """The same answer as server-sent events: each block in one piece."""
    told = answer(given)
    start = {**told, "content": [], "stop_reason": None, "usage": {**told["usage"], "output_tokens": 0}}
    yield event("message_start", {"message": start})
    for index, block in enumerate(told["content"]):
        empty: dict[str, Any] = {"text": ""} if block["type"] == "text" else {"input": {}}
        words = {"type": "text_delta", "text": block.get("text")}
        delta = words if block["type"] == "text" else {"type": "input_json_delta", "partial_json": canonical(block["input"])}
        yield event("content_block_start", {"index": index, "content_block": {**block, **empty}})
        yield event("content_block_delta", {"index": index, "delta": delta})
        yield event("content_block_stop", {"index": index})
    yield event("message_delta", {"delta": {name: told[name] for name in ("stop_reason", "stop_sequence")}, "usage": told["usage"]})
    yield event("message_stop", {})


def refusal(sentence: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """A refusal as clients of this dialect read it."""
    return {"type": "error", "error": {"type": kind, "message": sentence}}
