"""Requests of three dialects as agents send them, and answers as they read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.agents.gateway.calls import Answered, ToolCall, read
from patchgrad.agents.gateway.dialects import COUNT, WIRES, HttpAnswer, Posted, Sampled, posted
from patchgrad.agents.gateway.dialects.parts import canonical
from patchgrad.agents.gateway.history import ChatRequest, History, Said
from patchgrad.contracts import Extend
from patchgrad.values import Action, floats, ids

TEXT = 'Look.\n<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
ACTION = Action(ids([5, 6, 7]), floats(np.zeros(3)), 0, TEXT, "stop")
CUT = Action(ids([5]), floats(np.zeros(1)), 0, "Lo", "length")
PROMPT = ids(range(20))
SAMPLED = Sampled(read(TEXT), ACTION, PROMPT, 3)
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "system", "content": "Work."}, {"role": "user", "content": "hi"}]},
    RESPONSES: {"instructions": "Work.", "input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]},
    MESSAGES: {"system": [{"type": "text", "text": "Work."}], "messages": [{"role": "user", "content": "hi"}]},
}
"""The same conversation in each."""

TOOLS: dict[str, list[Any]] = {
    CHAT: [{"type": "function", "function": {"name": "bash", "description": "a shell", "parameters": {"type": "object"}}}],
    RESPONSES: [{"type": "function", "name": "bash", "description": "a shell", "parameters": {"type": "object"}}, {"type": "web_search"}],
    MESSAGES: [
        {"name": "bash", "description": "a shell", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "w"},
    ],
}


def request(path: str, body: Any) -> ChatRequest:
    found = posted(path, json.dumps(body))
    assert isinstance(found, Posted), found
    return found.request


def refused(path: str, body: Any) -> str:
    found = posted(path, json.dumps(body))
    assert isinstance(found, HttpAnswer)
    assert found.status == 400
    told = json.loads(found.body)["error"]["message"]
    assert isinstance(told, str)
    return told


def answer(path: str, sampled: Sampled, stream: bool = False) -> str:
    found = posted(path, json.dumps({**BODIES[path], "stream": stream}))
    assert isinstance(found, Posted)
    return found.reply(sampled).body


def gone_on(path: str, told: Any, result: str) -> dict[str, Any]:
    """What a client sends next: all that it sent, the answer as it has read it, and what its tool gave."""
    body = BODIES[path]
    if path == CHAT:
        said = told["choices"][0]["message"]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": result} for call in said.get("tool_calls", [])]
        return {"messages": [*body["messages"], {**said, "refusal": None}, *(results or [{"role": "user", "content": result}])]}
    if path == RESPONSES:
        calls = [item for item in told["output"] if item["type"] == "function_call"]
        outputs = [{"type": "function_call_output", "call_id": call["call_id"], "output": result} for call in calls]
        thoughts = {"type": "reasoning", "summary": [], "encrypted_content": "-"}
        return {**body, "input": [*body["input"], thoughts, *told["output"], *(outputs or [{"role": "user", "content": result}])]}
    uses = [block for block in told["content"] if block["type"] == "tool_use"]
    blocks = [{"type": "tool_result", "tool_use_id": use["id"], "content": [{"type": "text", "text": result}]} for use in uses]
    thoughts = {"type": "thinking", "thinking": "-", "signature": "-"}
    answered = {"role": "assistant", "content": [thoughts, *told["content"]]}
    return {**body, "messages": [*body["messages"], answered, {"role": "user", "content": blocks or result}]}


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_the_same_conversation_is_read_in_every_dialect(path: str) -> None:
    found = request(path, {**BODIES[path], "tools": TOOLS[path]})
    assert found.said == (Said("system", "Work."), Said("user", "hi"))
    described = {"name": "bash", "description": "a shell", "parameters": {"type": "object"}}
    assert [json.loads(tool) for tool in found.tools] == [
        {"type": "function", "function": described}
    ]  # a tool of the server's own is not told of


VALUES = st.recursive(
    st.one_of(st.text(), st.integers(), st.booleans(), st.none()), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
CALLS = st.one_of(st.none(), st.builds(ToolCall, st.text(min_size=1), st.dictionaries(st.text(), VALUES, max_size=3)))


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@given(content=st.text(), call=CALLS)
def test_whatever_was_answered_comes_back_as_the_same_and_the_stream_goes_on(path: str, content: str, call: ToolCall | None) -> None:
    sampled = Sampled(Answered(content, call), ACTION, PROMPT, 3)
    history = History()
    history.step(request(path, BODIES[path]))
    history.answered(sampled.said)
    step = history.step(request(path, gone_on(path, json.loads(answer(path, sampled)), "given")))
    assert isinstance(step, Extend)
    assert "given" in step.messages[-1].content


def events(stream: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def of_chat(told: list[dict[str, Any]]) -> Any:
    deltas = [choice["delta"] for chunk in told for choice in chunk["choices"]]
    calls = [{name: value for name, value in call.items() if name != "index"} for call in deltas[0].get("tool_calls", [])]
    return [deltas[0]["content"], calls, told[-2]["choices"][0]["finish_reason"], told[-1]["usage"]]


def of_messages(told: list[dict[str, Any]]) -> Any:
    blocks = [one["content_block"] for one in told if one["type"] == "content_block_start"]
    for one in told:
        if one["type"] == "content_block_delta":
            block, delta = blocks[one["index"]], one["delta"]
            block.update({"text": delta["text"]} if delta["type"] == "text_delta" else {"input": json.loads(delta["partial_json"])})
    last = next(one for one in told if one["type"] == "message_delta")
    return [blocks, last["delta"]["stop_reason"], last["usage"]["output_tokens"]]


def of_responses(told: list[dict[str, Any]]) -> Any:
    assert [one["sequence_number"] for one in told] == list(range(len(told)))
    items = [one["item"] for one in told if one["type"] == "response.output_item.done"]
    assert items == told[-1]["response"]["output"]
    assert "".join(one["delta"] for one in told if one["type"].endswith("text.delta")) == items[0]["content"][0]["text"]
    return told[-1]["response"]


WHOLE: dict[str, Callable[[Any], Any]] = {
    CHAT: lambda whole: [
        whole["choices"][0]["message"]["content"],
        whole["choices"][0]["message"].get("tool_calls", []),
        whole["choices"][0]["finish_reason"],
        whole["usage"],
    ],
    MESSAGES: lambda whole: [whole["content"], whole["stop_reason"], whole["usage"]["output_tokens"]],
    RESPONSES: lambda whole: whole,
}
STREAMED: dict[str, Callable[[list[dict[str, Any]]], Any]] = {CHAT: of_chat, MESSAGES: of_messages, RESPONSES: of_responses}


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("sampled", [SAMPLED, Sampled(read("Done."), ACTION, PROMPT, 3), Sampled(read("Lo"), CUT, PROMPT, 3)])
def test_a_stream_holds_the_answer(path: str, sampled: Sampled) -> None:
    assert STREAMED[path](events(answer(path, sampled, stream=True))) == WHOLE[path](json.loads(answer(path, sampled)))


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_an_answer_brings_the_ids_that_were_sampled(path: str) -> None:
    told = json.loads(answer(path, SAMPLED))
    assert (told["choices"][0] if path == CHAT else told)["token_ids"] == [5, 6, 7]


@pytest.mark.parametrize(
    ("path", "name", "cut", "called", "done"),
    [
        (CHAT, "finish_reason", "length", "tool_calls", "stop"),
        (MESSAGES, "stop_reason", "max_tokens", "tool_use", "end_turn"),
        (RESPONSES, "status", "incomplete", "completed", "completed"),
    ],
)
def test_an_answer_says_how_it_ended(path: str, name: str, cut: str, called: str, done: str) -> None:
    given = [Sampled(read("Lo"), CUT, PROMPT, 0), SAMPLED, Sampled(read("Done."), ACTION, PROMPT, 0)]
    told = [json.loads(answer(path, one)) for one in given]
    assert [(one["choices"][0] if path == CHAT else one)[name] for one in told] == [cut, called, done]


@pytest.mark.parametrize("spelled", ['{"command":"ls","a":1}', '{ "a" : 1, "command" : "ls" }', {"command": "ls", "a": 1}])
def test_arguments_that_a_client_spells_anew_are_the_same(spelled: Any) -> None:
    assert canonical(spelled) == '{"a": 1, "command": "ls"}'


def test_a_message_of_the_system_amid_the_others_stays_where_it_is() -> None:
    later = {"role": "system", "content": "The date is known."}
    body = {**BODIES[MESSAGES], "messages": [*BODIES[MESSAGES]["messages"], later]}
    found = request(MESSAGES, body)
    assert [one.role for one in found.said] == ["system", "user", "system"]
    assert [message.role for message in History().step(found).messages] == ["system", "user"]


def test_marks_for_a_cache_that_move_change_nothing() -> None:
    def marked(*marks: bool) -> dict[str, Any]:
        cached = {"cache_control": {"type": "ephemeral"}}
        blocks = [{"type": "text", "text": text, **(cached if mark else {})} for text, mark in zip("ab", marks, strict=True)]
        return {"messages": [{"role": "user", "content": blocks}]}

    assert request(MESSAGES, marked(True, False)) == request(MESSAGES, marked(False, True))


def test_text_may_come_in_parts_and_the_developer_speaks_for_the_system() -> None:
    parts = [{"type": "text", "text": "Be "}, {"type": "text", "text": "short.", "cache_control": {"type": "ephemeral"}}]
    assert request(CHAT, {"messages": [{"role": "developer", "content": parts}]}).said == (Said("system", "Be short."),)
    assert request(RESPONSES, {"input": "hi"}).said == (Said("user", "hi"),)


IMAGE = [{"type": "image_url", "image_url": {}}]


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        *((path, [], "a JSON object") for path in WIRES),
        *((path, {"messages": [], "input": []}, "A request has") for path in WIRES),
        *((path, {"messages": "hi", "input": 5}, "a list of objects") for path in WIRES),
        *((path, {"messages": [{"role": "robot", "content": ""}], "input": [{"role": "robot"}]}, "roles") for path in WIRES),
        *(
            (path, {"messages": [{"role": "user", "content": IMAGE}], "input": [{"role": "user", "content": IMAGE}]}, "text")
            for path in WIRES
        ),
        (CHAT, {"messages": [{"role": "user"}], "n": 2}, "One answer"),
        (CHAT, {"messages": [{"role": "user", "content": 5}]}, "text alone"),
        (CHAT, {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "a function with a name"),
        (CHAT, {"messages": [{"role": "user", "content": ""}], "tools": "bash"}, "a list of objects"),
        (RESPONSES, {"previous_response_id": "resp_0", "input": "hi"}, "Nothing is stored"),
        (RESPONSES, {"input": [{"type": "computer_call"}]}, "computer_call"),
        (RESPONSES, {"input": "hi", "tools": [{"type": "function"}]}, "A tool has a name"),
        (MESSAGES, {"messages": [{"role": "user", "content": ["hi"]}]}, "a list of blocks"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_sentence(path: str, body: Any, says: str) -> None:
    told = refused(path, body)
    assert says in told
    assert told.endswith(".")


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@given(body=st.dictionaries(st.sampled_from(["messages", "input", "tools", "system", "instructions", "n", "stream"]), VALUES))
def test_whatever_is_sent_is_read_or_refused(path: str, body: dict[str, Any]) -> None:
    assert isinstance(posted(path, json.dumps(body)), Posted | HttpAnswer)


ODD = st.recursive(
    st.one_of(st.text(max_size=3), st.integers(), st.none()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "tool_calls", "function", "name", "input", "output"]), inner)
    ),
)


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
@given(items=st.lists(ODD, min_size=1), tools=st.lists(ODD))
def test_whatever_messages_and_tools_are_made_of_is_read_or_refused(path: str, items: list[Any], tools: list[Any]) -> None:
    assert isinstance(posted(path, json.dumps({"messages": items, "input": items, "tools": tools})), Posted | HttpAnswer)


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_half_a_letter_is_replaced(path: str) -> None:
    told = posted(path, json.dumps(BODIES[path]).replace('"hi"', '"h\\ud800i"'))
    assert isinstance(told, Posted)
    assert told.request.said[-1] == Said("user", "h\ufffdi")
    assert canonical('{"a": "\\ud800"}') == '{"a": "\ufffd"}'


def test_a_count_is_asked_for_as_an_answer_is() -> None:
    assert request(COUNT, BODIES[MESSAGES]) == request(MESSAGES, BODIES[MESSAGES])
