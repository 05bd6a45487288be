"""A call is read as it was written; what cannot be read stays text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.agents.gateway.calls import Answered, ToolCall, described, read, written

texts = st.text(st.characters(codec="utf-8"), max_size=30).filter(lambda text: "tool_call" not in text)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(content=texts.map(str.strip), name=names, arguments=st.dictionaries(names, texts | st.integers() | st.booleans(), max_size=3))
def test_what_is_written_is_read(content: str, name: str, arguments: dict[str, object]) -> None:
    call = ToolCall(name, arguments)
    assert read(written(content, [(name, call.text)])) == Answered(content.rstrip(), call)


@given(st.text(st.characters(codec="utf-8")) | st.text('<>/tool_call{}":nameargu s\n', max_size=80))
def test_any_text_is_read(text: str) -> None:
    found = read(text)
    assert (found.call is None) == (found.fault is not None)
    if found.call is None:
        assert found.content == text


@pytest.mark.parametrize(
    ("inside", "fault"),
    [
        ("", "bad arguments"),
        ("ls", "bad arguments"),
        ("[]", "bad arguments"),
        ('{"name": "bash"}', "bad arguments"),
        ('{"name": 1, "arguments": {}}', "bad arguments"),
        ('{"name": "bash", "arguments": []}', "bad arguments"),
        ('{"name": "bash", "arguments": "ls"}', "bad arguments"),
        ('{"name": "bash", "arguments": null}', "bad arguments"),
        ("[" * 100_000, "bad arguments"),
    ],
)
def test_a_broken_call_stays_text(inside: str, fault: str) -> None:
    text = f"Look.\n<tool_call>{inside}</tool_call>"
    assert read(text) == Answered(text, None, fault)  # type: ignore[arg-type]


def test_of_several_calls_the_first_is_made() -> None:
    both = written("Two.", [("bash", '{"command": "a"}'), ("bash", '{"command": "b"}')])
    assert read(both).call == ToolCall("bash", {"command": "a"})


def test_arguments_may_be_json_in_a_text() -> None:
    inside = json.dumps({"name": "bash", "arguments": json.dumps({"command": "ls"})})
    assert read(f"<tool_call>{inside}</tool_call>").call == ToolCall("bash", {"command": "ls"})


def test_tools_are_described_where_there_are_some() -> None:
    assert described(()) == ""
    assert '"name": "bash"' in described(['{"type": "function", "function": {"name": "bash"}}'])
