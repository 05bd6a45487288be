"""Faults that others' recorders of agents are known for, each with what a real agent has sent.

Where no agent of `recorded/` sends what a fault needs, a recording is edited, and the test says by what. Every answer is drawn by a policy
that says again what was said when the requests were recorded, so what a program then sent is what it would send now.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.agents.gateway.recordings import NAMES, Recording, Repeating, Sent, attempted, gone_on, recording
from tests.agents.gateway.test_dialects import events
from tests.agents.gateway.test_server import ask
from tests.agents.gateway.test_serving import Watched, served

from patchgrad.agents.gateway.dialects import HttpAnswer, posted
from patchgrad.agents.gateway.history import ChatRequest, beginning, later
from patchgrad.errors import PolicyFault
from patchgrad.learning.provenance import Requirements, violation
from patchgrad.policies.scripted import ByteTokenizer
from patchgrad.policies.tokenizers.chat import STOP, ChatTokenizer
from patchgrad.values import Action, Ids, Sampling, floats, ids

CHAT = "/v1/chat/completions"
GROWING = [name for name in NAMES if name != "aider"]
"""The agents whose history only grows; aider tells its files anew."""


def saying(found: Recording) -> Watched:
    """The policy of a recording."""
    script = iter(found.says)
    return Watched(lambda session, number: next(script))


def in_attempt(found: Recording) -> tuple[Watched, Repeating, Any]:
    """The turns of a recording as an attempt: the policy, the program, and the graded attempt, which is certified."""
    policy, program = saying(found), Repeating(found.turns)
    rollout, journal = attempted(program, policy)
    assert rollout.trajectory.stop == "submitted", rollout.verdict
    terms = Requirements(journal.holds, frozenset({0}), ByteTokenizer.fingerprint, policy.stops)
    assert violation(rollout, terms) is None
    return policy, program, rollout


def grows(policy: Watched) -> bool:
    """Did the policy read each time all that it had read and said before?"""
    return all(np.array_equal(later[: len(one)], one) for (_, one, _), (_, later, _) in zip(policy.read, policy.read[1:], strict=False))


def result_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages or items of a request, in whichever dialect."""
    found: list[dict[str, Any]] = body["input"] if "input" in body else body["messages"]
    return found


@pytest.mark.parametrize("name", GROWING)
def test_the_turns_of_an_agent_are_one_certified_stream_and_its_mask_is_as_long(name: str) -> None:
    found = recording(name)
    policy, _, rollout = in_attempt(found)
    (segment,) = rollout.trajectory.segments
    assert len(segment.turns) == len(found.turns) <= len(found.says)
    assert grows(policy)
    assert len(segment.actions()) == len(segment.tokens())
    assert segment.actions().sum() == len(segment.logprobs())


def test_a_history_that_is_told_in_another_order_begins_a_stream_which_is_certified_too() -> None:
    policy, _, rollout = in_attempt(recording("aider"))
    assert [len(segment.turns) for segment in rollout.trajectory.segments] == [1, 1]
    assert not grows(policy)
    assert "<<<<<<< SEARCH" in ByteTokenizer().decode(policy.read[1][1].tolist())


def test_the_thoughts_of_an_answer_that_a_client_leaves_out_stay_in_the_stream() -> None:
    found = recording("mini_swe_agent_thoughts")
    told = [message for sent in found.requests for message in sent.body["messages"] if message["role"] == "assistant"]
    assert told
    assert not any("<think>" in message["content"] for message in told)
    policy, _, _ = in_attempt(found)
    assert ByteTokenizer().decode(policy.read[-1][1].tolist()).count("<think>") == len(found.requests) - 1


@pytest.mark.parametrize("name", [name for name in GROWING if not name.endswith("thoughts")])
def test_a_stream_that_grows_is_the_conversation_as_its_template_writes_it(name: str) -> None:
    """No separator is lost between turns."""
    found, tokenizer = recording(name), ChatTokenizer.train(["So."], 300)
    stream: list[int] = []
    known: ChatRequest | None = None
    action: Action | None = None
    for sent, says in zip(found.turns, found.says, strict=False):
        new = beginning(sent.said) if known is None else later(sent.said.said, sent.said.said[: len(known.said) + 1])
        stream += tokenizer.encode(new, action).tolist()
        whole = tokenizer.encode(beginning(sent.said), None).tolist()
        assert spelled(tokenizer, stream) == spelled(tokenizer, whole)
        drawn = tokenizer.tokenizer.encode(f"{says}{STOP}").ids
        action, known = Action(ids(drawn), floats(np.zeros(len(drawn))), 0, says, "stop"), sent.said
        stream += drawn


def spelled(tokenizer: ChatTokenizer, tokens: Sequence[int]) -> str:
    return tokenizer.tokenizer.decode(list(tokens), skip_special_tokens=False)


@pytest.mark.parametrize("name", ["mini_swe_agent", "codex", "claude_code", "opencode"])
def test_results_of_calls_that_were_made_at_once_are_one_message(name: str) -> None:
    """The edit: the result in the second turn comes twice."""

    def twice(number: int, body: dict[str, Any]) -> None:
        last = result_of(body)[-1]
        if isinstance(last.get("content"), list) and last["content"][-1].get("type") == "tool_result":
            last["content"].append(last["content"][-1])
        elif last.get("role") == "tool" or last.get("type") == "function_call_output":
            result_of(body).append(last)

    plain = recording(name)
    found = plain.edited(twice)
    first, second = found.turns[:2]
    new = later(second.said.said, second.said.said[: len(first.said.said) + 1])
    assert [message.role for message in new] == ["user"]
    assert new[0].content.count("<tool_response>") == 2
    assert beginning(second.said)[-1] == new[0]


def test_a_stream_of_events_holds_every_id_that_was_sampled_though_its_text_is_read() -> None:
    """The edit: ids and log-probabilities are asked for. OpenCode asks for a stream, and its calls are read out of the text."""
    found = recording("opencode").edited(lambda number, body: body.update(return_token_ids=True, logprobs=True))
    policy, program, rollout = in_attempt(found)
    for (_, read, _), turn, (status, told) in zip(policy.read, rollout.trajectory.turns, program.answers, strict=True):
        first, *rest = events(told)
        choice = first["choices"][0]
        assert status == 200
        assert first["prompt_token_ids"] == read.tolist()
        assert choice["token_ids"] == turn.action.token_ids.tolist()
        assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])
        assert not any("token_ids" in other for piece in rest for other in piece["choices"])


@pytest.mark.parametrize("stream", [False, True])
def test_who_asks_for_the_ids_of_the_prompt_is_told_all_of_them_in_an_attempt(stream: bool) -> None:
    """The edit: ids are asked for, as most recorders do; no answer leaves out those of the prompt, which one would train as none."""
    found = recording("mini_swe_agent").edited(lambda number, body: body.update(return_token_ids=True, stream=stream))
    policy, program, _ = in_attempt(found)
    answers = [events(told)[0] if stream else json.loads(told) for _, told in program.answers]
    assert [told["prompt_token_ids"] for told in answers] == [read.tolist() for _, read, _ in policy.read]


def test_a_retry_that_is_marked_has_the_answer_of_the_first_and_is_sampled_once() -> None:
    first, again = recording("mini_swe_agent_retried").requests
    assert (first.headers, again.headers) == ({"x-stainless-retry-count": "0"}, {"x-stainless-retry-count": "1"})
    policy = Watched(["So."])
    with served(policy) as there:
        told = [ask(there, CHAT, "a", sent.body, **dict(sent.headers)) for sent in (first, again)]
    assert told[0] == told[1]
    assert len(policy.read) == 1


@pytest.mark.parametrize("name", ["mini_swe_agent_retried", "claude_code_retried"])
def test_what_failed_leaves_nothing_in_the_stream_of_the_retry(name: str) -> None:
    class Busy(Watched):
        async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
            action = await super().act(session, tokens, sampling)
            if len(self.read) == 1:
                raise PolicyFault("it was busy")
            return action

    policy, requests = Busy(["So."]), recording(name).requests
    with served(policy) as there:
        told = [ask(there, sent.path, "a", sent.body, **dict(sent.headers))[0] for sent in requests]
    assert told == [503, 200]
    assert np.array_equal(policy.read[0][1], policy.read[1][1])


def test_a_first_line_that_is_another_one_in_each_request_begins_no_stream() -> None:
    """The edit: each request has a `cch` of its own, as some versions of Claude Code send it. The recorded one does not."""

    def attributed(number: int, body: dict[str, Any]) -> None:
        block = body["system"][0]
        assert block["text"].startswith("x-anthropic-billing-header: cc_version=")
        block["text"] += f" cch={number:05x};"

    found = recording("claude_code_attributed").edited(attributed)
    policy, _, rollout = in_attempt(found)
    assert len(rollout.trajectory.segments) == 1
    read = ByteTokenizer().decode(policy.read[0][1].tolist())
    assert "billing" not in read
    assert "You are a Claude agent" in read


def test_words_of_the_system_amid_a_conversation_stay_where_they_are() -> None:
    found = recording("claude_code")
    roles = [message["role"] for message in found.turns[-1].body["messages"]]
    assert roles == ["user", "system", "assistant", "user", "assistant", "user", "system"]
    assert [one.role for one in found.turns[-1].said.said] == [
        "system",
        "user",
        "system",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "system",
    ]
    policy, _, _ = in_attempt(found)
    assert grows(policy)


def test_who_goes_back_to_an_earlier_branch_is_drawn_after_its_very_ids_and_the_attempt_is_certified() -> None:
    """The edit: after its last turn the program asks again from the result of its first call, which gave something else; then it goes on
    with the whole as if it had not.
    """
    found = recording("mini_swe_agent_thoughts")
    first, second, third = found.turns
    other = json.loads(json.dumps(second.body))
    other["messages"][-1]["content"] = "Nothing is there."
    policy = Watched(lambda session, number: found.says[min(number, 2)])
    program = Repeating([first, second, Sent(second.path, {}, other), third])
    rollout, journal = attempted(program, policy)
    reads = [read for _, read, _ in policy.read]
    until = len(reads[0]) + len(rollout.trajectory.turns[0].action.token_ids)
    assert [len(segment.turns) for segment in rollout.trajectory.segments] == [2, 1, 1]
    assert np.array_equal(reads[2][:until], reads[1][:until])
    assert np.array_equal(reads[3][: len(reads[1])], reads[1])
    assert "<think>" in ByteTokenizer().decode(reads[2].tolist())
    assert violation(rollout, Requirements(journal.holds, frozenset({0}), ByteTokenizer.fingerprint, policy.stops)) is None
    assert [int(segment.actions().sum()) for segment in rollout.trajectory.segments[1:]] == [
        len(turn.action.token_ids) for turn in rollout.trajectory.turns[2:]
    ]
    again = gone_on(Repeating(program.sent), policy, rollout.trajectory.turns[:3], journal)
    assert [len(segment.turns) for segment in again.segments] == [2, 1, 1]
    assert [turn.address for turn in again.turns] == [turn.address for turn in rollout.trajectory.turns]


def test_codex_asks_at_responses_alone() -> None:
    assert {sent.path for sent in recording("codex").requests} == {"/v1/responses"}


def test_a_title_that_is_asked_for_before_the_work_is_no_turn_of_it() -> None:
    title, *turns = recording("opencode").requests
    assert not title.said.offers
    assert all(sent.said.offers for sent in turns)


@pytest.mark.parametrize("name", ["mini_swe_agent", "codex", "claude_code"])
def test_an_image_is_refused_in_a_sentence_and_the_attempt_says_why_it_has_no_turn(name: str) -> None:
    """The edit: the task has an image, whose ids only an engine would make."""

    def shown(number: int, body: dict[str, Any]) -> None:
        message = next(one for one in result_of(body) if one["role"] == "user")
        parts = message["content"] if isinstance(message["content"], list) else [{"type": "text", "text": message["content"]}]
        message["content"] = [*parts, {"type": "image_url", "image_url": {"url": "data:"}}]

    found = recording(name).edited(shown)
    refused = posted(found.turns[0].path, json.dumps(found.turns[0].body))
    assert isinstance(refused, HttpAnswer)
    assert refused.status == 400
    program = Repeating(found.turns)
    rollout, _ = attempted(program, saying(found))
    assert rollout.trajectory.stop == "failed"
    assert rollout.broken
    assert "images" in program.answers[0][1]


def test_an_attempt_whose_first_request_does_not_fit_says_so() -> None:
    found = recording("claude_code")
    rollout, _ = attempted(Repeating(found.turns), saying(found), context=50)
    assert (rollout.trajectory.stop, rollout.trajectory.turns) == ("context limit", ())


@pytest.mark.parametrize("name", ["mini_swe_agent", "opencode", "codex", "claude_code"])
def test_words_for_the_template_of_another_server_change_no_token(name: str) -> None:
    """The edit: OpenEnv adds these to every call."""
    plain = recording(name)
    kwargs = {"chat_template_kwargs": {"enable_thinking": True}, "top_logprobs": 0}
    openenv = plain.edited(lambda number, body: body.update(kwargs))
    read = [in_attempt(found)[0].read for found in (plain, openenv)]
    assert all(np.array_equal(one, other) for (_, one, _), (_, other, _) in zip(*read, strict=True))
