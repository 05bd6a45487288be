"""A policy as an endpoint: sessions and their streams, what they may have, who may ask, and the command that serves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.agents.gateway.small_agent import OPENER
from tests.agents.gateway.test_mini_swe_agent import call
from tests.agents.gateway.test_server import ask
from tests.models.small import written
from tests.policies.vllm_server import double

from patchgrad.agents.gateway.history import ChatRequest, Said
from patchgrad.agents.gateway.serving import app
from patchgrad.agents.gateway.visits import Allowance, Spent, Visit, Visits
from patchgrad.contracts import Policy
from patchgrad.endpoints import Chat
from patchgrad.errors import ConfigError, PolicyFault
from patchgrad.links.listening import Place
from patchgrad.policies.endpoint import EndpointPolicy
from patchgrad.policies.scripted import ByteTokenizer, ScriptedPolicy
from patchgrad.testing import ScriptedEndpoint
from patchgrad.values import Action, Ids, Sampling

SAMPLING = Sampling(4_000, 5, purpose="evaluation")
BODY = {"messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"


class Watched(ScriptedPolicy):
    """Remembers what it has read."""

    def __init__(self, says: Any, **more: Any) -> None:
        super().__init__(says, **more)
        self.read: list[tuple[str, Ids, Sampling]] = []

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        self.read.append((session, tokens, sampling))
        return await super().act(session, tokens, sampling)


def asked(policy: ScriptedPolicy, *requests: ChatRequest, allowance: Allowance | None = None) -> list[str]:
    """What one session is told."""

    async def test() -> list[str]:
        visit = Visit("v", policy, SAMPLING, allowance or Allowance())
        return [(await visit.answer(request)).answered.content for request in requests]

    return asyncio.run(test())


def request(*words: str) -> ChatRequest:
    """A conversation, the user's words first."""
    roles = ("user", "assistant")
    return ChatRequest(tuple(Said(roles[number % 2], text) for number, text in enumerate(words)))  # type: ignore[arg-type]


def test_a_stream_goes_on_after_the_ids_that_were_sampled() -> None:
    policy = Watched(["one", "two", "three"])
    assert asked(policy, request("hi"), request("hi", "one", "more"), request("hi", "one", "more", "two", "still")) == [
        "one",
        "two",
        "three",
    ]
    (_, first, _), (_, second, _), (_, third, _) = policy.read
    assert np.array_equal(second[: len(first)], first)
    assert np.array_equal(third[: len(second)], second)
    assert len({session for session, _, _ in policy.read}) == 1
    assert [sampling.seed for _, _, sampling in policy.read] == [5, 6, 7]


def test_another_end_of_the_same_story_is_a_fork_after_the_same_ids() -> None:
    policy = Watched(["one", "two"])
    asked(policy, request("hi"), request("hi", "one", "more"), request("hi", "one", "less"))
    (_, _, _), (_, second, _), (_, third, _) = policy.read
    common = len(ByteTokenizer().encode([], None)) + len(policy.read[0][1]) + len("one") + 1
    assert np.array_equal(second[:common], third[:common])
    assert ByteTokenizer().decode(third[common:].tolist()).count("less") == 1


def test_another_story_begins_another_stream() -> None:
    policy = Watched(["one"])
    asked(policy, request("hi"), request("ho"), request("hi", "another answer", "more"))
    assert len({session for session, _, _ in policy.read}) == 3


@pytest.mark.parametrize(
    ("allowance", "says"),
    [
        (Allowance(calls=2), "This session has had its 2 answers."),
        (Allowance(tokens=5), "This session has had its 5 tokens."),
        (Allowance(seconds=0), "This session has had its 0 seconds."),
    ],
)
def test_a_session_has_what_it_may_have_and_no_more(allowance: Allowance, says: str) -> None:
    with pytest.raises(Spent) as spent:
        asked(ScriptedPolicy(lambda session, number: "one"), *[request("hi")] * 3, allowance=allowance)
    assert str(spent.value) == says


@contextmanager
def served(policy: Policy, key: str = "", allowance: Allowance | None = None) -> Iterator[Any]:
    """The address of a policy, in the shape that `ask` wants."""
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = Place(port=free.getsockname()[1], key=key)
    visits = Visits(policy, SAMPLING, allowance or Allowance())
    server = uvicorn.Server(uvicorn.Config(app(visits, place), port=place.port, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)

    class There:
        address = f"http://127.0.0.1:{place.port}"

    yield There()
    server.should_exit = server.force_exit = True
    thread.join()


def test_sessions_are_told_apart_by_their_tokens() -> None:
    policy = Watched(["one", "two"])
    with served(policy, allowance=Allowance(calls=1)) as there:
        assert ask(there, CHAT, "a", BODY)[0] == 200
        assert ask(there, CHAT, "b", BODY)[0] == 200
        status, told = ask(there, CHAT, "a", {**BODY, "messages": [{"role": "user", "content": "ho"}]})
    assert (status, json.loads(told)["error"]["type"]) == (429, "rate_limit_error")


def test_who_asks_for_details_is_told_the_ids_that_were_read_and_every_log_probability() -> None:
    with served(ScriptedPolicy([call("ls")])) as there:
        told = json.loads(ask(there, CHAT, "a", {**BODY, "logprobs": True})[1])
        assert "prompt_token_ids" not in json.loads(ask(there, CHAT, "b", BODY)[1])
    choice = told["choices"][0]
    assert len(told["prompt_token_ids"]) == told["usage"]["prompt_tokens"]
    assert [one["token"] for one in choice["logprobs"]["content"]] == [f"token_id:{id}" for id in choice["token_ids"]]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "bash"


def test_a_retry_that_comes_while_the_first_waits_is_answered_with_it() -> None:
    policy = Watched(["one", "two"], delay=0.5)
    with served(policy) as there:
        answers: list[tuple[int, str]] = []
        marked: tuple[dict[str, str], ...] = ({}, {"x_stainless_retry_count": "1"})
        threads = [threading.Thread(target=lambda more=more: answers.append(ask(there, CHAT, "a", BODY, **more))) for more in marked]
        for thread in threads:
            thread.start()
            time.sleep(0.1)
        for thread in threads:
            thread.join()
        again = ask(there, CHAT, "a", BODY, x_stainless_retry_count="1")
    assert len(policy.read) == 1
    assert answers[0] == answers[1] == again


def test_equal_questions_at_once_have_answers_of_their_own() -> None:
    policy = Watched(["one", "two"], delay=0.2)
    with served(policy) as there:
        threads = [threading.Thread(target=ask, args=(there, CHAT, "a", BODY)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(sampling.seed for _, _, sampling in policy.read) == [5, 6, 7]


def test_a_retry_of_what_failed_asks_the_policy_again() -> None:
    class Failing(Watched):
        async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
            action = await super().act(session, tokens, sampling)
            if len(self.read) == 1:
                raise PolicyFault("it was busy")
            return action

    with served(Failing(["one"])) as there:
        assert ask(there, CHAT, "a", BODY)[0] == 503
        assert ask(there, CHAT, "a", BODY, x_stainless_retry_count="1")[0] == 200


def test_of_two_answers_that_say_the_same_the_one_whose_call_was_run_goes_on() -> None:
    says = [f"{call('ls')}{end}" for end in ("", " and so on")]
    told = iter([*says, "Done."])
    policy = Watched(lambda session, number: next(told))
    answered = Said("assistant", "So.", (("bash", '{"command": "ls"}'),))
    result = ChatRequest((Said("user", "hi"), answered, Said("tool", "a.py", call="call_1")))
    asked(policy, request("hi"), request("hi"), result)
    assert " and so on" in ByteTokenizer().decode(policy.read[2][1].tolist())


def test_answers_under_way_count_into_what_a_session_may_have() -> None:
    async def test() -> list[int]:
        policy = Watched(lambda session, number: "x" * 50, delay=0.1)
        visit = Visit("v", policy, SAMPLING, Allowance(tokens=60))
        await asyncio.gather(*(visit.answer(request("hi")) for _ in range(3)), return_exceptions=True)
        return [sampling.max_tokens for _, _, sampling in policy.read]

    assert asyncio.run(test()) == [60]


def test_a_session_whose_streams_are_gone_has_had_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgrad.agents.gateway.visits._SESSIONS", 1)
    visits = Visits(ScriptedPolicy(lambda session, number: "one"), SAMPLING, Allowance(calls=1))

    async def test() -> None:
        await visits.of("a").answer(request("hi"))
        await visits.of("b").answer(request("hi"))
        with pytest.raises(Spent):
            await visits.of("a").answer(request("hi"))

    asyncio.run(test())


@pytest.mark.parametrize(("words", "says"), [({"port": 0}, "--port is 0"), ({"key": "a:b"}, "--key"), ({"key": "\u00e9"}, "--key")])
def test_a_place_where_nobody_could_ask_is_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Place(**words)


def test_what_does_not_fit_and_what_cannot_be_read_is_refused_in_a_sentence() -> None:
    with served(ScriptedPolicy(["one"], context=20)) as there:
        status, told = ask(there, CHAT, "a", {"messages": [{"role": "user", "content": "x" * 50}]})
        assert (status, "the context 20" in told) == (400, True)
        assert ask(there, "/v1/messages", "a", {"messages": 5})[0] == 400
        assert ask(there, "/v1/messages/count_tokens", "a", BODY)[0] == 200
    with served(ScriptedPolicy([])) as there:
        assert ask(there, CHAT, "a", BODY)[0] == 503


def test_without_the_key_under_a_foreign_name_or_from_a_page_nothing_is_answered() -> None:
    with served(ScriptedPolicy(["one", "two"]), key="secret") as there:
        for path, body in ((CHAT, BODY), ("/v1/responses", {"input": "hi"}), ("/v1/models", None)):
            for token in ("", "secre", "Secret", "x:secret"):
                assert ask(there, path, token, body)[0] == 401
        assert ask(there, CHAT, "secret", BODY)[0] == 200
        assert ask(there, CHAT, "secret:me", BODY)[0] == 200
        assert ask(there, CHAT, "secret", BODY, Host="evil.example")[0] == 403
    with served(ScriptedPolicy(["one"])) as there:
        assert ask(there, CHAT, "a", BODY, Host="evil.example")[0] == 403
        assert ask(there, CHAT, "a", BODY, Origin="http://evil.example")[0] == 403
    with pytest.raises(ConfigError, match="--key"):
        Place("0.0.0.0")


def test_a_policy_of_text_alone_tells_no_ids_and_says_so_where_they_are_asked_for() -> None:
    with ScriptedEndpoint(["Done."]) as endpoint:
        policy = EndpointPolicy(Chat(endpoint.url, "m"), context=4_096)
        with served(policy) as there:
            told = [json.loads(ask(there, path, "a", body)[1]) for path, body in ((CHAT, BODY), ("/v1/messages", BODY))]
            status, refusal = ask(there, CHAT, "a", {**BODY, "return_token_ids": True})
    assert "token_ids" not in told[0]["choices"][0]
    assert "token_ids" not in told[1]
    assert (status, "text alone" in refusal) == (400, True)


def command(*words: str) -> Sequence[str]:
    return (str(Path(sys.executable).with_name("patchgrad")), "serve", *words)


def test_the_command_serves_a_model_until_it_is_stopped(tmp_path: Path) -> None:
    written(tmp_path / "model", context=512)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = command(str(tmp_path / "model"), "--port", str(port), "--agent.action_tokens", "8")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert "at most 8 tokens an answer, a context of 512" in process.stdout.readline()
        body = json.dumps({"input": "hi"}).encode()
        for _ in range(100):
            try:
                with OPENER.open(f"http://127.0.0.1:{port}/v1/responses", body) as answer:
                    assert json.load(answer)["usage"]["output_tokens"] <= 8
                break
            except OSError:
                time.sleep(0.2)
        else:
            raise AssertionError("nobody answers")
        process.send_signal(signal.SIGINT)
        told = process.stdout.read()
    assert (process.returncode, told.splitlines()[-1]) == (130, "patchgrad: stopped.")
    assert "Traceback" not in told


def test_the_command_has_vllm_draw_and_each_answer_has_its_ids(tmp_path: Path) -> None:
    written(tmp_path / "model", context=512)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = command(str(tmp_path / "model"), "--vllm", double(tmp_path), "--port", str(port), "--agent.action_tokens", "8")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert "is served at" in process.stdout.readline()

        def asked(*messages: Any) -> Any:
            body = json.dumps({"messages": messages, "return_token_ids": True}).encode()
            for _ in range(100):
                try:
                    with OPENER.open(f"http://127.0.0.1:{port}{CHAT}", body) as answer:
                        return json.load(answer)
                except urllib.error.HTTPError:
                    raise
                except OSError:
                    time.sleep(0.2)
            raise AssertionError("nobody answers")

        first = asked(*BODY["messages"])
        choice = first["choices"][0]
        second = asked(*BODY["messages"], choice["message"], {"role": "user", "content": "more"})
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    before = [*first["prompt_token_ids"], *choice["token_ids"]]
    assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == first["usage"]["completion_tokens"] > 0
    assert second["prompt_token_ids"][: len(before)] == before
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nowhere/model",), "nowhere/model"),
        (("http://127.0.0.1:9/v1",), "--model NAME"),
        (("model", "--host", "0.0.0.0"), "--key"),
        (("http://127.0.0.1:9/v1", "--model", "m", "--vllm", "python"), "--vllm"),
        (("model", "--evaluation.nothing", "1"), "evaluation.nothing"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(words: tuple[str, ...], says: str) -> None:
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
