"""The server that programs ask: who may, what they are told, and that nothing is answered twice or after the end."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from patchgrad.agents.gateway.calls import read
from patchgrad.agents.gateway.dialects import COUNT, LONGEST, WIRES, Posted, Sampled, posted
from patchgrad.agents.gateway.server import Gateway
from patchgrad.agents.gateway.session import Command, Counting, Ended, Question, Session
from patchgrad.values import Action, floats, ids

BODY = {"model": "any", "messages": [{"role": "user", "content": "hi"}]}
ACTION = Action(ids([5]), floats(np.zeros(1)), 0, "ho", "stop")
ANSWER = Sampled(read("ho"), ACTION, ids([1, 2]), 0)


def written(answer: Sampled = ANSWER) -> str:
    """The answer as it is read by who asked in chat."""
    found = posted("/v1/chat/completions", json.dumps(BODY))
    assert isinstance(found, Posted)
    return found.reply(answer).body


@pytest.fixture
def served() -> Iterator[Gateway]:
    gateway = Gateway()
    yield gateway
    gateway.close()


def ask(gateway: Gateway, path: str, token: str, body: Any = None, **headers: str) -> tuple[int, str]:
    """The status and the body of an answer."""
    connection = http.client.HTTPConnection(gateway.address.removeprefix("http://"), timeout=30)
    given = {"Authorization": f"Bearer {token}"} if token else {}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    text = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request("GET" if body is None else "POST", path, text, given)
    answer = connection.getresponse()
    told = answer.read().decode()
    connection.close()
    return answer.status, told


def during(gateway: Gateway, test: Callable[[Session], Awaitable[None]]) -> None:
    """The test in an event loop, with a session that is left at its end."""

    async def whole() -> None:
        session = gateway.open()
        try:
            await test(session)
        finally:
            gateway.leave(session)

    asyncio.run(whole())


def test_a_question_waits_for_its_answer_and_a_command_for_what_it_gave(served: Gateway) -> None:
    async def test(session: Session) -> None:
        asking = asyncio.create_task(asyncio.to_thread(ask, served, "/v1/chat/completions", session.token, BODY))
        question = await session.next()
        assert isinstance(question, Question)
        assert question.request.said[0].content == "hi"
        assert not asking.done()
        question.reply.set_result(ANSWER)
        assert await asking == (200, written())
        running = asyncio.create_task(asyncio.to_thread(ask, served, "/sandbox", session.token, {"command": "ls"}))
        command = await session.next()
        assert isinstance(command, Command)
        assert command.command == "ls"
        command.reply.set_result({"output": "a.py", "returncode": 0})
        assert json.loads((await running)[1])["output"] == "a.py"
        session.end("Submitted", "")
        assert await session.next() == Ended("Submitted", "")

    during(served, test)


def test_the_tokens_of_a_request_are_counted(served: Gateway) -> None:
    async def test(session: Session) -> None:
        asking = asyncio.create_task(asyncio.to_thread(ask, served, COUNT, session.token, BODY))
        counting = await session.next()
        assert isinstance(counting, Counting)
        counting.reply.set_result(17)
        assert await asking == (200, json.dumps({"input_tokens": 17}))

    during(served, test)


def test_an_answer_is_streamed_where_that_is_asked_for(served: Gateway) -> None:
    async def test(session: Session) -> None:
        asking = asyncio.create_task(asyncio.to_thread(ask, served, "/v1/chat/completions", session.token, {**BODY, "stream": True}))
        question = await session.next()
        assert isinstance(question, Question)
        question.reply.set_result(ANSWER)
        status, told = await asking
        assert status == 200
        assert told.endswith("data: [DONE]\n\n")

    during(served, test)


def test_who_asks_again_is_answered_as_before_and_the_policy_is_asked_once(served: Gateway) -> None:
    async def test(session: Session) -> None:
        def asked(**headers: str) -> asyncio.Task[tuple[int, str]]:
            return asyncio.create_task(asyncio.to_thread(ask, served, "/v1/chat/completions", session.token, BODY, **headers))

        first = asked()
        question = await session.next()
        assert isinstance(question, Question)
        second = asked(x_stainless_retry_count="1")  # a client that was not patient
        await asyncio.sleep(0.2)
        question.reply.set_result(ANSWER)
        assert [await first, await second] == [(200, written())] * 2
        assert await asked(x_stainless_retry_count="2") == (200, written())  # its answer was lost on the way
        third = asked()  # the same words once more, and no retry: after a summary a program may begin as before
        again = await session.next()
        assert isinstance(again, Question)
        again.reply.set_result(replace(ANSWER, number=1))
        assert json.loads((await third)[1])["id"] == "chatcmpl-1"

    during(served, test)


def test_who_hangs_up_and_asks_again_gets_the_same_answer(served: Gateway) -> None:
    async def test(session: Session) -> None:
        connection = http.client.HTTPConnection(served.address.removeprefix("http://"))
        headers = {"Authorization": f"Bearer {session.token}"}
        connection.request("POST", "/v1/chat/completions", json.dumps(BODY).encode(), headers)
        question = await session.next()
        assert isinstance(question, Question)
        connection.close()
        await asyncio.sleep(0.2)
        again = asyncio.create_task(
            asyncio.to_thread(ask, served, "/v1/chat/completions", session.token, BODY, x_stainless_retry_count="1")
        )
        await asyncio.sleep(0.2)
        question.reply.set_result(ANSWER)
        assert await again == (200, written())

    during(served, test)


def test_after_the_end_nobody_is_answered(served: Gateway) -> None:
    async def test(session: Session) -> None:
        waiting = asyncio.create_task(asyncio.to_thread(ask, served, "/v1/chat/completions", session.token, BODY))
        await session.next()
        served.leave(session)
        assert (await waiting)[0] == 409
        for path, body in (("/v1/chat/completions", BODY), ("/sandbox", {"command": "ls"}), ("/v1/models", None)):
            status, told = await asyncio.to_thread(ask, served, path, session.token, body)
            assert (status, "over" in told) == (409, True)

    during(served, test)


@pytest.mark.parametrize(("path", "body"), [*((path, BODY) for path in WIRES), ("/sandbox", {"command": "ls"}), ("/v1/models", None)])
def test_without_the_token_of_an_attempt_nothing_is_answered(served: Gateway, path: str, body: Any) -> None:
    async def test(session: Session) -> None:
        for token in ("", "wrong", session.token[:-1], session.token.swapcase()):
            assert (await asyncio.to_thread(ask, served, path, token, body))[0] == 401
        assert (await asyncio.to_thread(ask, served, path, session.token, body, Host="evil.example"))[0] == 403
        assert (await asyncio.to_thread(ask, served, path, session.token, body, Origin="http://evil.example"))[0] == 403

    during(served, test)


def test_the_models_are_listed_and_other_places_are_not_here(served: Gateway) -> None:
    async def test(session: Session) -> None:
        status, told = await asyncio.to_thread(ask, served, "/v1/models", session.token)
        assert (status, json.loads(told)["data"][0]["id"]) == (200, "patchgrad")
        assert (await asyncio.to_thread(ask, served, "/v1/embeddings", session.token, BODY))[0] == 404

    during(served, test)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'"\\ud800"', {"messages": []}])
def test_what_is_no_request_is_refused_in_the_words_of_the_dialect(served: Gateway, body: Any) -> None:
    async def test(session: Session) -> None:
        status, told = await asyncio.to_thread(ask, served, "/v1/chat/completions", session.token, body)
        assert (status, json.loads(told)["error"]["type"]) == (400, "invalid_request_error")

    during(served, test)


@pytest.mark.parametrize("body", [b"", b"[]", {"command": 5}, {}])
def test_what_is_no_command_is_refused(served: Gateway, body: Any) -> None:
    async def test(session: Session) -> None:
        assert (await asyncio.to_thread(ask, served, "/sandbox", session.token, body))[0] == 400

    during(served, test)


def test_a_request_without_end_is_refused(served: Gateway) -> None:
    async def test(session: Session) -> None:
        status, _ = await asyncio.to_thread(ask, served, "/v1/chat/completions", session.token, b" " * (LONGEST + 1))
        assert status == 413

    during(served, test)


def test_no_token_and_no_request_reaches_a_log(served: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen = []

    async def test(session: Session) -> None:
        seen.append(session.token)
        await asyncio.to_thread(ask, served, "/v1/chat/completions", session.token, {"messages": [], "secret": "hunter2"})

    during(served, test)
    assert seen[0] not in caplog.text
    assert "hunter2" not in caplog.text


def test_the_end_of_a_program_whose_attempt_is_gone_harms_nobody(served: Gateway) -> None:
    async def opened() -> Session:
        return served.open()

    asyncio.run(opened()).end("Submitted", "")  # from a thread that tells others too


def test_closing_it_ends_its_thread() -> None:
    before = set(threading.enumerate())
    gateway = Gateway()
    assert len(set(threading.enumerate()) - before) == 1
    gateway.close()
    assert set(threading.enumerate()) <= before
