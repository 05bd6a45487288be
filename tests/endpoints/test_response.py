"""What a response means: where servers say that something failed, what their answers hold, and when they are to be asked again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.endpoints import Answer
from patchgrad.endpoints.response import Again, judge
from patchgrad.errors import ContextFault, EndpointRefused
from patchgrad.values import Usage

URL = "http://x/v1"


def judged(told: Any, status: int = 200, **headers: str) -> Answer | Again:
    return judge(URL, status, headers, told if isinstance(told, bytes) else json.dumps(told).encode())


def message(content: Any, finish: str = "stop", **others: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content, **others}, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, '{"error": {"message": "too many", "code": "context_length_exceeded"}}'),
        (400, '{"object": "error", "message": "This model\'s maximum context length is 4096 tokens. However, you requested 5000"}'),
        (400, '{"error": {"message": "You passed 1015 input tokens. However, the model\'s context length is only 1024 tokens"}}'),
        (400, '{"error": {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}'),
        (200, '{"error": {"code": 400, "type": "exceed_context_size_error", "message": "the request exceeds"}}'),
        (400, '{"message": "The input (9000 tokens) is longer than the model\'s context length (4096 tokens)."}'),
        (413, '{"error": {"message": "prompt is too long: 200000 tokens > 199999 maximum"}}'),
    ],
)
def test_a_conversation_that_is_too_long_is_a_limit_and_no_fault_of_a_machine(status: int, body: str) -> None:
    with pytest.raises(ContextFault, match="says that the conversation is too long"):
        judge(URL, status, {}, body.encode())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"error": {"message": "upstream failed", "code": 502}}, 502),
        ({"error": {"message": "upstream failed", "code": "503"}}, 503),
        ({"error": {"message": "upstream failed", "status": 429}}, 429),
        ({"error": {"message": "upstream failed", "code": "server_error", "type": "x"}}, 502),
        ({"error": "upstream failed"}, 502),
        ({"object": "error", "message": "upstream failed", "code": 500}, 500),
        ({"choices": [{"error": {"message": "upstream failed", "code": 504}, "message": {"content": "Let"}}]}, 504),
    ],
    ids=str,
)
def test_a_failure_counts_by_its_own_code_wherever_it_stands(error: Any, status: int) -> None:
    assert judged(error) == Again(f"it answered {status}: upstream failed", None, status == 429)


@pytest.mark.parametrize("code", [401, 402, "404"])
def test_a_failure_that_would_come_again_is_refused_by_its_own_code(code: Any) -> None:
    with pytest.raises(EndpointRefused, match=f"answered {code}: no") as refused:
        judged({"error": {"message": "no", "code": code}})
    assert refused.value.status == int(code)


def test_an_error_that_is_none_is_no_failure() -> None:
    assert judged({"error": None} | message("Hello")) == Answer("Hello", "stop", None)
    assert judged(message("Hello"), 201) == Answer("Hello", "stop", None)


@pytest.mark.parametrize(
    ("told", "instead"),
    [
        (message(None, "tool_calls", tool_calls=[{"function": {"name": "bash"}}]), "tool_calls"),
        (message("", "length", reasoning_content="I think"), "reasoning_content"),
        (message(" \n", reasoning="I think", refusal=None, tool_calls=[]), "reasoning"),
        (message("", "content_filter"), "content_filter"),
        (message(None, refusal="I cannot"), "refusal"),
        (message(None), "nothing"),
        (message("", "tool_calls", tool_calls=[{}], reasoning="So"), "tool_calls, reasoning"),
        (message("Let me", "content_filter"), "content_filter"),
        (message("Let me", "tool_calls", tool_calls=[{}]), "tool_calls"),
        (message("Let me", "stop", reasoning="I think"), ""),
        (message("Let me", "eos"), ""),
        (message([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]), "nothing"),
    ],
    ids=str,
)
def test_an_answer_without_text_says_what_it_holds_instead(told: Any, instead: str) -> None:
    found = judged(told)
    assert isinstance(found, Answer)
    assert found.instead == instead


def test_text_comes_whole_or_in_parts() -> None:
    parts = [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    assert judged(message(parts)) == Answer("Hello", "stop", None)
    assert judged(message({"text": "x"})) == Again("an answer whose message is no text")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"echo \ud83d", "echo \ufffd"),
        (rb"\ude00\ud83d", "\ufffd\ufffd"),
        (rb"\ud83d\ude00", "\U0001f600"),
        (b"caf\xe9", "caf\ufffd"),
        (b"\xed\xa0\xbd", "\ufffd\ufffd\ufffd"),
    ],
    ids=str,
)
def test_text_that_is_no_unicode_costs_a_letter_and_not_the_answer(body: bytes, text: str) -> None:
    assert judged(json.dumps(message("X")).encode().replace(b"X", body)) == Answer(text, "stop", None)
    failed = judged(b'{"error": {"code": 502, "message": "' + body + b'"}}')
    assert isinstance(failed, Again)
    assert failed.reason.isprintable()


def meaning(status: int, header: str, body: bytes) -> str:
    try:
        found = judge(URL, status, {"Location": header, "Retry-After": header, "Content-Type": header}, body)
    except (EndpointRefused, ContextFault) as refused:
        return str(refused)
    return found.instead if isinstance(found, Answer) else found.reason


@given(st.binary(max_size=60), st.sampled_from([200, 204, 302, 400, 404, 429, 500]), st.text(st.characters(), max_size=12))
def test_whatever_a_server_says_has_a_meaning_that_can_be_printed(body: bytes, status: int, header: str) -> None:
    for data in (body, json.dumps(message(body.decode("latin-1"))).encode().replace(b"role", body)):
        assert meaning(status, header, data).isprintable()


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 0}, Usage(10, 0)),
        ({"prompt_tokens": -1, "completion_tokens": -1}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": 10**30, "completion_tokens": 3}, None),
        ({"prompt_tokens": True, "completion_tokens": 3}, None),
        ({"prompt_tokens": float("nan"), "completion_tokens": 3}, None),
        ([10, 3], None),
        (None, None),
    ],
    ids=str,
)
def test_a_count_that_cannot_be_one_is_none(counted: Any, usage: Usage | None) -> None:
    assert judged(message("Hello") | {"usage": counted}) == Answer("Hello", "stop", usage)


def test_a_wrong_address_says_what_came_and_where_it_points() -> None:
    def refusal(status: int, body: bytes = b"", **headers: str) -> str:
        found = judge(URL, status, {name.replace("_", "-"): value for name, value in headers.items()}, body)
        assert isinstance(found, Again)
        return str(found.refusal)

    page = refusal(200, b"<html><style>p{}</style><title>Sign\x1b[2J in</title></html>", Content_Type="text/html")
    assert page.startswith("http://x/v1 is no endpoint: it answered 200 with text/html that is no chat completion (Sign\ufffd[2J in); name")
    moved = refusal(307, Location="https://y/v1/chat/completions")
    assert moved.endswith("it answered 307 and points to https://y/v1/chat/completions; if that is the endpoint, name it as https://y/v1.")
    assert "points to http://x/login;" in refusal(302, Location="/login")
    assert "points to http://[/;" in refusal(302, Location="http://[/")
    assert "points nowhere; name the address of one" in refusal(301)


def test_an_empty_purse_is_not_waited_for() -> None:
    body = b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
    for status in (429, 200):
        with pytest.raises(EndpointRefused, match="exceeded your current quota"):
            judge(URL, status, {}, body)


def test_a_server_says_when_to_come_back_by_a_number_or_a_date() -> None:
    def after(text: str) -> float | None:
        found = judge(URL, 429, {"Retry-After": text}, b"{}")
        assert isinstance(found, Again)
        return found.after

    assert after("2.5") == 2.5
    assert [after(text) for text in ("soon", "", "0", "-5", "nan", "inf", "Mon, 01 Jan 0001 00:00:00 -0000")] == [None] * 7
    later = after(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True))
    assert later == pytest.approx(60, abs=3)
    assert after(format_datetime(datetime.now(UTC) - timedelta(seconds=60), usegmt=True)) is None
