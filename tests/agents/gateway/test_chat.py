"""Requests of `/v1/chat/completions` as agents send them, and answers as they read them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from patchgrad.agents.gateway import chat
from patchgrad.agents.gateway.calls import read
from patchgrad.agents.gateway.history import Said
from patchgrad.values import Action, floats, ids

TEXT = 'Look.\n<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
ACTION = Action(ids([5, 6, 7]), floats(np.zeros(3)), 0, TEXT, "stop")


def said(*messages: dict[str, Any], **more: Any) -> tuple[Said, ...]:
    return chat.request({"model": "x", "messages": list(messages), **more}).said


def test_the_history_tells_an_answer_as_it_was_given() -> None:
    whole = chat.answer(read(TEXT), ACTION, 20, 3)
    told = whole["choices"][0]["message"]
    sent_back = {**told, "function_call": None, "provider_specific_fields": {"refusal": None}}
    assert said(sent_back) == (chat.said(read(TEXT)),)
    assert told["tool_calls"][0]["id"] == "call_3"
    assert (whole["choices"][0]["finish_reason"], whole["choices"][0]["token_ids"]) == ("tool_calls", [5, 6, 7])
    assert whole["usage"] == {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}


@pytest.mark.parametrize("spelled", ['{"command":"ls"}', '{ "command" : "ls" }', {"command": "ls"}])
def test_arguments_that_a_client_spells_anew_are_the_same(spelled: Any) -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": spelled}}
    assert said({"role": "assistant", "content": "Look.", "tool_calls": [call]}) == (chat.said(read(TEXT)),)


def test_text_may_come_in_parts_and_the_developer_speaks_for_the_system() -> None:
    parts = [{"type": "text", "text": "Be "}, {"type": "text", "text": "short.", "cache_control": {"type": "ephemeral"}}]
    assert said({"role": "developer", "content": parts}) == (Said("system", "Be short."),)


def test_an_answer_that_was_cut_says_so() -> None:
    cut = Action(ids([5]), floats(np.zeros(1)), 0, "Lo", "length")
    assert chat.answer(read("Lo"), cut, 1, 0)["choices"][0]["finish_reason"] == "length"


def test_a_stream_holds_the_answer() -> None:
    whole = chat.answer(read(TEXT), ACTION, 20, 0)
    lines = list(chat.streamed(whole))
    assert all(line.startswith("data: ") and line.endswith("\n\n") for line in lines)
    assert lines[-1] == "data: [DONE]\n\n"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert deltas[0]["content"] == "Look."
    assert deltas[0]["tool_calls"][0] == {"index": 0, **whole["choices"][0]["message"]["tool_calls"][0]}
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]] == [None, "tool_calls"]
    assert chunks[-1]["usage"] == whole["usage"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "a JSON object"),
        ({}, "a list of messages"),
        ({"messages": []}, "a list of messages"),
        ({"messages": [{"role": "user"}], "n": 2}, "One answer"),
        ({"messages": ["hi"]}, "roles"),
        ({"messages": [{"role": "robot", "content": ""}]}, "roles"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "text alone"),
        ({"messages": [{"role": "user", "content": 5}]}, "text alone"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "a function with a name"),
        ({"messages": [{"role": "user", "content": ""}], "tools": [{"type": "web_search"}]}, "functions"),
        ({"messages": [{"role": "user", "content": ""}], "tools": "bash"}, "functions"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_sentence(body: Any, says: str) -> None:
    with pytest.raises(chat.BadRequest, match=says) as refused:
        chat.request(body)
    assert str(refused.value).endswith(".")
