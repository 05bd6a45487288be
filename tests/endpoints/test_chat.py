"""Questions over real HTTP: what is asked again, what is refused by name, and that nothing waits without a deadline."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from patchgrad.endpoints import Answer, Chat
from patchgrad.endpoints.chat import TRIES
from patchgrad.endpoints.response import Again, judge
from patchgrad.errors import EndpointRefused, PolicyFault
from patchgrad.testing.endpoint import ScriptedEndpoint, Trouble
from patchgrad.values import Message, Usage

HELLO = [Message("system", "Be brief."), Message("user", "Hello")]


def ask(endpoint: ScriptedEndpoint, *, seconds: float = 20.0, key: str = "") -> Answer:
    return asyncio.run(Chat(endpoint.url, "m", key, seconds=seconds, pause=0.001).ask(HELLO, {"temperature": 1.0, "max_tokens": 5}))


def test_a_question_is_asked_as_it_stands() -> None:
    with ScriptedEndpoint(["Good day"]) as endpoint:
        assert ask(endpoint, key="secret") == Answer("Good day", "stop", Usage(5, 2))
    (asked,) = endpoint.asked
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    assert {name: asked[name] for name in ("model", "temperature", "max_tokens")} == {"model": "m", "temperature": 1.0, "max_tokens": 5}
    assert asked["authorization"] == "Bearer secret"


def test_an_answer_that_was_cut_says_so_and_one_without_a_count_has_none() -> None:
    with ScriptedEndpoint(["x" * 100], counts=False) as endpoint:
        assert ask(endpoint) == Answer("x" * 20, "length", None)


@pytest.mark.parametrize(
    "trouble",
    [
        Trouble(429, '{"error": {"message": "slow down"}}', {"Retry-After": "0.01"}),
        Trouble(503, "loading"),
        Trouble(500, "<html>"),
        Trouble(200, '{"choices": []}'),
        Trouble(200, '{"error": {"message": "Provider returned error", "code": 502}}'),
        Trouble(200, '{"choices": [{"message": {"content": 3}}]}'),
    ],
    ids=lambda trouble: f"{trouble.status} {trouble.body[:12]}",
)
def test_what_passes_is_asked_again(trouble: Trouble) -> None:
    with ScriptedEndpoint(["at last"], troubles=[trouble, trouble]) as endpoint:
        assert ask(endpoint).text == "at last"
    assert len(endpoint.asked) == 3


PAGES = [
    Trouble(200, "<!DOCTYPE html><html><title>Sign in</title></html>", {"Content-Type": "text/html"}),
    Trouble(200, '{"status": "ok"}', {"Content-Type": "application/json"}),
    Trouble(200, 'data: {"choices": []}', {"Content-Type": "text/event-stream"}),
    Trouble(200, "[" * 5000 + "]" * 5000),
    Trouble(204),
    Trouble(307, "", {"Location": "/elsewhere"}),
    Trouble(404, "404 page not found"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.status} {page.body[:12]}")
def test_a_page_is_asked_again_where_an_endpoint_was_and_is_a_wrong_address_where_none_was_heard(page: Trouble) -> None:
    async def talk(endpoint: ScriptedEndpoint) -> str:
        chat = Chat(endpoint.url, "m", pause=0.001)
        await chat.ask(HELLO, {})
        endpoint.troubles += [page, page]
        return (await chat.ask(HELLO, {})).text

    with ScriptedEndpoint(["here"]) as endpoint:
        assert asyncio.run(talk(endpoint)) == "here"
    with ScriptedEndpoint(["no"], troubles=[page]) as endpoint, pytest.raises(EndpointRefused, match=f"answered {page.status}"):
        ask(endpoint)
    assert len(endpoint.asked) == 1, "at once"


@pytest.mark.parametrize("after", ["0", "-5", "nan", "inf", "1e999", "0.0000001", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_server_that_names_no_time_to_come_is_asked_less_and_less_often(after: str) -> None:
    chat = Chat("http://127.0.0.1:1/v1", "m", pause=1.0)
    found = judge("http://x/v1", 429, {"Retry-After": after}, b"{}")
    assert isinstance(found, Again)
    pauses = [chat.until_next(found, asked) for asked in (1, 2, 9, 2000)]
    assert min(pauses) >= 0.75, "never at once"
    assert pauses == [1.0] * 4 or pauses[0] < pauses[1] < 60 <= 1.4 * pauses[2], "twice as long each time, unless the server says so little"
    assert max(pauses) <= 75


def test_the_first_answer_is_waited_for_aloud(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedEndpoint(["at last"], troubles=[Trouble(503, "loading")]) as endpoint:
        ask(endpoint)
    assert "it answered 503: loading; it is asked again in" in caplog.text


def test_an_answer_that_ends_early_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedEndpoint(["at last"], troubles=[Trouble(200, '{"choices": [', {"Content-Length": "999"})]) as endpoint:
        assert ask(endpoint).text == "at last"
    assert "the connection broke (the answer ended 986 bytes early)" in caplog.text


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http:/nowhere")
    with pytest.raises(EndpointRefused, match="cannot be reached"):
        asyncio.run(Chat("http://models.example/v1", "m").ask(HELLO, {}))


def test_what_does_not_pass_ends_after_some_tries() -> None:
    with (
        ScriptedEndpoint(["never"], troubles=[Trouble(503, "busy")] * 99) as endpoint,
        pytest.raises(PolicyFault, match="asked 6 times: it"),
    ):
        ask(endpoint)
    assert len(endpoint.asked) == TRIES


def test_too_many_requests_are_waited_for_as_long_as_there_is_time() -> None:
    many = [Trouble(429, "wait", {"Retry-After": "0.01"})] * (TRIES + 3)
    with ScriptedEndpoint(["at last"], troubles=many) as endpoint:
        assert ask(endpoint).text == "at last"
    with ScriptedEndpoint(["no"], troubles=[Trouble(429, "wait", {"Retry-After": "900"})]) as endpoint:
        began = time.monotonic()
        with pytest.raises(PolicyFault, match="asked 1 times: it answered 429: wait"):
            ask(endpoint, seconds=5)
        assert time.monotonic() - began < 4, "nothing is waited for that comes too late"


def test_a_silent_server_ends_at_the_deadline() -> None:
    with ScriptedEndpoint(["late"], troubles=[Trouble(200, "", seconds=3.0)]) as endpoint:
        began = time.monotonic()
        with pytest.raises(PolicyFault, match=r"it was silent for 0\.3 seconds"):
            ask(endpoint, seconds=0.3)
        assert time.monotonic() - began < 2


def test_a_connection_that_breaks_is_tried_again_once_the_server_was_there() -> None:
    async def talk(endpoint: ScriptedEndpoint) -> str:
        chat = Chat(endpoint.url, "m", pause=0.001)
        await chat.ask(HELLO, {})
        endpoint.troubles.append(Trouble(0))
        return (await chat.ask(HELLO, {})).text

    with ScriptedEndpoint(["here"]) as endpoint:
        assert asyncio.run(talk(endpoint)) == "here"
    assert len(endpoint.asked) == 3


def test_who_leaves_is_not_held_up() -> None:
    async def leave(endpoint: ScriptedEndpoint) -> float:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Chat(endpoint.url, "m").ask(HELLO, {}), 0.1)
        return time.monotonic() - began

    with ScriptedEndpoint(["late"], troubles=[Trouble(200, "", seconds=1.0)]) as endpoint:
        assert asyncio.run(leave(endpoint)) < 0.8
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "endpoint")


def test_a_wrong_address_key_or_model_is_refused_in_a_sentence() -> None:
    with pytest.raises(EndpointRefused, match="cannot be reached"):
        asyncio.run(Chat("http://127.0.0.1:1/v1", "m").ask(HELLO, {}))
    for status, advice in ((401, "put its key into PATCHGRAD_KEY"), (404, "name the address up to /v1"), (422, "change what it refuses")):
        trouble = Trouble(status, json.dumps({"error": {"message": "not\nthis way"}}))
        with (
            ScriptedEndpoint(["no"], troubles=[trouble]) as endpoint,
            pytest.raises(EndpointRefused, match=f"not this way; {advice}") as refused,
        ):
            ask(endpoint)
        assert refused.value.status == status


def test_words_that_are_refused_where_others_were_taken_break_one_attempt_and_no_more() -> None:
    async def talk(endpoint: ScriptedEndpoint) -> None:
        chat = Chat(endpoint.url, "m")
        await chat.ask(HELLO, {})
        for status in (400, 403, 451):
            endpoint.troubles.append(Trouble(status, '{"error": "against our rules"}'))
            with pytest.raises(PolicyFault, match="against our rules"):
                await chat.ask(HELLO, {})
        endpoint.troubles.append(Trouble(200, '{"error": {"code": 400, "message": "against their rules"}}'))
        with pytest.raises(PolicyFault, match="against their rules"):
            await chat.ask(HELLO, {})
        endpoint.troubles.append(Trouble(401, "the key was taken back"))
        with pytest.raises(EndpointRefused, match="the key was taken back"):
            await chat.ask(HELLO, {})

    with ScriptedEndpoint(["fine"]) as endpoint:
        asyncio.run(talk(endpoint))
