"""The policy behind an endpoint, against a real server: what it sends, what it counts, how it ends, and that nobody trains on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import View, toolset
from patchgrad.endpoints import Chat
from patchgrad.errors import ConfigError, EndpointRefused, PolicyFault, ProvenanceError
from patchgrad.evaluation import Measured, details, summarise
from patchgrad.learning.advantages import Ones
from patchgrad.learning.credit import assign
from patchgrad.policies.endpoint import EndpointPolicy
from patchgrad.policies.endpoint.framing import MARKS, STOP, encode, read, spell
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.loop import rollout
from patchgrad.testing import LocalSandboxes
from patchgrad.testing.endpoint import ScriptedEndpoint, Trouble
from patchgrad.testing.tasks import a_task
from patchgrad.values import (
    Action,
    Attempt,
    Budget,
    Group,
    Message,
    Reward,
    Rollout,
    Sampling,
    Task,
    TestOutcome,
    Trajectory,
    Usage,
    Verdict,
    floats,
    ids,
    well_formed,
)

TASK = a_task("t", "total is wrong", fail_to_pass=("tests/test_a.py::test_a",))
FILES = {"shop/cart.py": "total = 0\n"}
ANY = st.text(st.characters(), max_size=30)
NEUTRAL = Sampling(32, seed=7)
LOOK = "```command\nls\n```"
SUBMIT = "```command\nsubmit\n```"


@given(st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), ANY), min_size=1, max_size=4))
def test_a_conversation_is_read_as_it_was_spelled(messages: list[Message]) -> None:
    told = [Message(message.role, well_formed(message.content)) for message in messages]
    assert read(encode(messages, None)) == told


@given(ANY, ANY)
def test_what_was_said_goes_into_the_conversation_whole_or_cut(said: str, answer: str) -> None:
    opening = encode([Message("user", "go")], None)
    for finish in ("stop", "length"):
        action = Action(ids([*spell(said), *([STOP] if finish == "stop" else [])]), floats([]), 0, said, finish, Usage(1, 1))
        stream = ids([*opening, *action.token_ids, *encode([Message("user", answer)], action)])
        assert [message.role for message in read(stream)] == ["user", "assistant", "user"]
        assert read(stream)[1].content == well_formed(said)


@pytest.mark.parametrize("stream", [[1], [STOP], [MARKS["user"]], [MARKS["user"], STOP], [MARKS["assistant"], 5], [1 << 28], []])
def test_what_is_no_conversation_is_a_fault(stream: list[int]) -> None:
    with pytest.raises(PolicyFault, match="conversation"):
        read(ids(stream))


def test_three_bytes_are_an_id() -> None:
    assert len(spell("abc" * 100)) == 100
    assert len(spell("")) == 1


def opened(endpoint: ScriptedEndpoint, sampling: Sampling = NEUTRAL) -> EndpointPolicy:
    return asyncio.run(EndpointPolicy.open(Chat(endpoint.url, "m", pause=0.001), context=4096, sampling=sampling))


PLAIN = ("temperature", "top_p", "max_tokens")


@pytest.mark.parametrize(
    ("takes", "sent"),
    [
        (None, {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "seed": 7, "max_tokens": 32}),
        (
            ("temperature", "top_p", "seed", "max_completion_tokens"),
            {"temperature": 1.0, "top_p": 1.0, "seed": 7, "max_completion_tokens": 32},
        ),
        (PLAIN, {"temperature": 1.0, "top_p": 1.0, "max_tokens": 32}),
    ],
    ids=["vLLM", "OpenAI", "plain"],
)
def test_every_setting_that_a_server_takes_is_sent_with_every_question(takes: Sequence[str] | None, sent: dict[str, float]) -> None:
    with ScriptedEndpoint(["ready"], takes=takes) as endpoint:
        policy = opened(endpoint)
        asyncio.run(policy.act("a", policy.encode([Message("user", "go")], None), NEUTRAL))
    asked = endpoint.asked[-1]
    assert {name: value for name, value in asked.items() if name not in ("model", "messages", "authorization")} == sent


def test_a_setting_that_a_server_has_no_name_for_is_refused_before_anything_starts() -> None:
    with (
        ScriptedEndpoint(["ready"], takes=PLAIN) as endpoint,
        pytest.raises(ConfigError, match="takes no top_k, so top_k 20 cannot be had"),
    ):
        opened(endpoint, Sampling(1, 0, top_k=20))
    with ScriptedEndpoint(["ready"], troubles=[Trouble(401, "no key")]) as endpoint, pytest.raises(EndpointRefused, match="no key"):
        opened(endpoint)
    with ScriptedEndpoint(["ready"], takes=()) as endpoint, pytest.raises(EndpointRefused, match="Unrecognized request argument"):
        opened(endpoint)


async def ungraded(task: Task, patch: str) -> Verdict:
    return Verdict(task.id, patch, (), ())


def play(endpoint: ScriptedEndpoint, budget: Budget) -> Trajectory:
    harness = Harness(ReactAgent(toolset(View())), LocalSandboxes(FILES), ungraded, executor=LocalExecutor(1))
    policy = EndpointPolicy(Chat(endpoint.url, "m", pause=0.001), context=budget.context)
    return asyncio.run(rollout(harness, policy, Attempt(TASK, "a", 1, budget, NEUTRAL)))


def test_an_episode_is_played_over_http_and_counted_by_the_server() -> None:
    with ScriptedEndpoint([LOOK, LOOK, SUBMIT]) as endpoint:
        found = play(endpoint, Budget(turns=9, context=20_000, action_tokens=64))
    assert (found.stop, len(found.turns)) == ("submitted", 3)
    roles = [message["role"] for message in endpoint.asked[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    first, second, _ = (turn.action for turn in found.turns)
    assert first.usage is not None
    assert second.usage is not None
    assert first.tokens == 5
    assert second.usage.prompt > first.usage.prompt + first.tokens
    assert not first.trainable


def test_a_conversation_too_long_for_the_server_ends_at_the_context_limit_and_one_too_long_for_the_budget_too() -> None:
    with ScriptedEndpoint(lambda _: LOOK, context=1600) as endpoint:
        served = play(endpoint, Budget(turns=99, context=20_000, action_tokens=64))
    with ScriptedEndpoint(lambda _: LOOK) as endpoint:
        own = play(endpoint, Budget(turns=99, context=1600, action_tokens=64))
        longest = max(sum(len(message["content"]) for message in asked["messages"]) for asked in endpoint.asked) / 4
    assert served.stop == own.stop == "context limit"
    assert 2 < len(own.turns) < 99
    assert longest <= 1600
    assert abs(len(own.turns) - len(served.turns)) <= 2, "what the server counts decides, not the ids that spell it"


def test_a_server_that_is_down_breaks_the_attempt() -> None:
    with ScriptedEndpoint([LOOK], troubles=[Trouble(503, "down")] * 99) as endpoint:
        assert play(endpoint, Budget(turns=9, context=20_000)).stop == "failed"


def said(content: str | None, finish: str = "stop", **others: Any) -> Trouble:
    """An answer as no script says it."""
    answer = {"message": {"role": "assistant", "content": content, **others}, "finish_reason": finish}
    return Trouble(200, json.dumps({"choices": [answer]}))


@pytest.mark.parametrize("letter", ["\ud83d", "\udc80\ud800", "\x00", "\x1b[2J"], ids=ascii)
def test_a_command_with_a_letter_that_is_none_costs_nobody_an_attempt(letter: str) -> None:
    with ScriptedEndpoint([LOOK, LOOK, SUBMIT], troubles=[said(f"{letter}\n```command\necho a{letter}b > a{letter}\n```")]) as endpoint:
        found = play(endpoint, Budget(turns=9, context=20_000, action_tokens=64))
    assert (found.stop, len(found.turns)) == ("submitted", 3)
    assert all(turn.action.text == well_formed(turn.action.text) and turn.address for turn in found.turns)
    found.submission.encode()


def test_a_draft_in_a_thought_is_not_run() -> None:
    thought = "<think>\n```command\necho draft > draft\n```\n</think>\n"
    with ScriptedEndpoint([thought + LOOK, thought.removeprefix("<think>") + SUBMIT]) as endpoint:
        found = play(endpoint, Budget(turns=9, context=20_000, action_tokens=64))
    assert (found.stop, len(found.turns), found.submission) == ("submitted", 2, "")


def test_what_a_server_answers_with_instead_of_text_is_kept_with_the_turn_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    calls = said(None, "tool_calls", tool_calls=[{"function": {"name": "bash", "arguments": '{"command": "ls"}'}}])
    with ScriptedEndpoint(["", "", "", SUBMIT], troubles=[calls, calls, said("", "content_filter")]) as endpoint:
        found = play(endpoint, Budget(turns=9, context=20_000, action_tokens=64))
    assert [turn.action.instead for turn in found.turns] == ["tool_calls", "tool_calls", "content_filter", ""]
    assert [record.getMessage().partition(" answered ")[2] for record in caplog.records] == [
        f"with {kind}; only text is read" for kind in ("tool_calls", "content_filter")
    ]
    group = Group((Rollout(TASK, found, Verdict("t", "", ("ran",), ()), Reward(0.0, {})),))
    report = summarise("m", [group], Measured(1, 1.0, {}))
    assert report.instead == {"tool_calls": 2, "content_filter": 1}
    assert "Answers of the server that held something else than text, which alone is read: tool_calls 2, content_filter 1." in details(
        report
    )
    silent = replace(found.turns[0], action=replace(found.turns[0].action, instead=""))
    assert silent.address != found.turns[0].address


def test_credit_refuses_what_an_endpoint_said_by_name() -> None:
    with ScriptedEndpoint([SUBMIT]) as endpoint:
        trajectory = play(endpoint, Budget(turns=9, context=20_000))
    verdict = Verdict("t", "", ("ran",), (TestOutcome("t", "fail_to_pass", "passed"),))
    group = Group((Rollout(TASK, trajectory, verdict, Reward(1.0, {})),))
    with pytest.raises(ProvenanceError, match="an endpoint said it, which tells no token ids and no log-probabilities"):
        assign([group], Ones())
