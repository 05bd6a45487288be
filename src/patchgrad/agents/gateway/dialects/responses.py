"""The dialect of `/v1/responses`: items in place of messages, and events of their own. Codex speaks it alone.

Nothing is stored: a request tells all that was said. A policy's thoughts are text, so items of reasoning are none of what was said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from patchgrad.agents.gateway.dialects.chat import ROLES, refusal
from patchgrad.agents.gateway.dialects.parts import MODEL, BadRequest, Sampled, canonical, event, function, joined, objects, text, whole
from patchgrad.agents.gateway.history import ChatRequest, Said

__all__ = ["answer", "refusal", "request", "streamed"]


def request(body: Any) -> ChatRequest:
    """What is asked; `BadRequest` for what no policy here can answer, such as images or what was said in an earlier request alone."""
    body = whole(body)
    for name in ("previous_response_id", "conversation", "background", "prompt"):
        if body.get(name):
            raise BadRequest(f"Nothing is stored here, so {name} leads nowhere: send all of the input.")
    given = body.get("input")
    items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else objects(body, "input")
    if not items:
        raise BadRequest("A request has an input.")
    told = [one for item in items if item.get("type") != "reasoning" for one in (_said(item),)]
    tools = objects(body, "tools")
    functions = [tool for tool in tools if tool.get("type") == "function"]
    described = [function(tool.get("name"), tool.get("description"), tool.get("parameters")) for tool in functions]
    instructions = [Said("system", text(body["instructions"]))] if body.get("instructions") else []
    return ChatRequest(tuple(joined([*instructions, *told])), tuple(described), offers=bool(tools))


def _said(item: Mapping[str, Any]) -> Said:
    match item.get("type", "message"):
        case "message":
            role = ROLES.get(str(item.get("role")))
            if role is None:
                raise BadRequest(f"A message is an object with one of the roles {', '.join(ROLES)}.")
            content = text(item.get("content"))
            return Said(role, content.strip() if role == "assistant" else content)
        case "function_call":
            return Said("assistant", "", ((str(item.get("name")), canonical(item.get("arguments", "{}"))),))
        case "function_call_output":
            return Said("tool", text(item.get("output")), (), str(item.get("call_id") or ""))
        case kind:
            raise BadRequest(f"An item of the type {kind} cannot be read here: messages, calls of functions and their outputs can.")


def answer(given: Sampled) -> dict[str, Any]:
    """The whole answer: an item of what was said, and one of the call. Its first item has the ids that were sampled."""
    answered, action, number = given.answered, given.action, given.number
    output: list[dict[str, Any]] = []
    if answered.content or answered.call is None:
        part = {"type": "output_text", "text": answered.content, "annotations": []}
        output.append({"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": [part]})
    if answered.call is not None:
        named = {"call_id": f"call_{number}", "name": answered.call.name, "arguments": answered.call.text}
        output.append({"type": "function_call", "id": f"fc_{number}", "status": "completed", **named})
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": given.read, "output_tokens": action.tokens, "total_tokens": given.read + action.tokens, **details}
    return {
        **_begun(number),
        "status": "incomplete" if given.cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if given.cut else None,
        "output": output,
        "usage": usage,
        **given.ids,
    }


def _begun(number: int) -> dict[str, Any]:
    kept = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": [], "error": None, "metadata": {}, "instructions": None}
    told = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": MODEL, "status": "in_progress", "output": []}
    return {**told, **kept, "usage": None, "incomplete_details": None}


def streamed(given: Sampled) -> Iterator[str]:
    """The same answer as server-sent events: each item in one piece, and at last the whole."""
    told = answer(given)
    events: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": _begun(given.number)})]
    for index, item in enumerate(told["output"]):
        events += _events(index, item)
    events.append((f"response.{told['status']}", {"response": told}))
    for number, (name, data) in enumerate(events):
        yield event(name, {"sequence_number": number, **data})


def _events(index: int, item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    at = {"item_id": item["id"], "output_index": index}
    empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
    yield "response.output_item.added", {"output_index": index, "item": {**item, "status": "in_progress", **empty}}
    if item["type"] == "message":
        part = item["content"][0]
        yield "response.content_part.added", {**at, "content_index": 0, "part": {**part, "text": ""}}
        yield "response.output_text.delta", {**at, "content_index": 0, "delta": part["text"], "logprobs": []}
        yield "response.output_text.done", {**at, "content_index": 0, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**at, "content_index": 0, "part": part}
    else:
        yield "response.function_call_arguments.delta", {**at, "delta": item["arguments"]}
        yield "response.function_call_arguments.done", {**at, "name": item["name"], "arguments": item["arguments"]}
    yield "response.output_item.done", {"output_index": index, "item": item}
