"""Programs of others inside the attempt's sandbox: what they are told, what is a turn, how they end, and what they cannot reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agents.gateway.test_mini_swe_agent import call
from tests.guests.shop import REPAIR, shop

from patchgrad.agents.gateway import CommandAgent
from patchgrad.contracts import Policy
from patchgrad.endpoints import Chat
from patchgrad.errors import ConfigError, NotAccepted
from patchgrad.grading import Grader
from patchgrad.policies.endpoint import EndpointPolicy
from patchgrad.policies.scripted import ByteTokenizer, ScriptedPolicy
from patchgrad.recipes.component import Component
from patchgrad.recipes.recipe import AgentChoice, SandboxChoice
from patchgrad.rollouts.attempts import NEUTRAL, run_attempt
from patchgrad.rollouts.harness import Workbench
from patchgrad.rollouts.journals import MemoryJournal
from patchgrad.rollouts.loop import Rolled, rolled
from patchgrad.runs.build.harness import harness
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.testing import ScriptedEndpoint
from patchgrad.values import Action, Attempt, Budget, Ids, Message, Task, Turn, Verdict

CODE = (Path(__file__).parent / "small_agent.py").read_text()
BUDGET = Budget(turns=8, context=400_000, action_tokens=4_000)
SCRIPT = [call("cat shop.py"), call(REPAIR), "Done."]
Says = Sequence[str] | Callable[[str, int], str]


def small(dialect: str = "chat", before: str = "") -> CommandAgent:
    """The small agent in a dialect; `before` is run in it first."""
    started = CODE.replace('if __name__ == "__main__":', f'if __name__ == "__main__":\n{before}')
    return CommandAgent(("python3", "-c", started, dialect, "{address}", "{instruction}"))


def shell(script: str) -> CommandAgent:
    """A program that asks nothing, or something odd: `$1` is the address."""
    return CommandAgent(("bash", "-c", script, "program", "{address}", "{instruction}"))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return shop(tmp_path)


def attempt(task: Task, budget: Budget = BUDGET) -> Attempt:
    return Attempt(task, "a/0", 7, budget, NEUTRAL)


async def grade(task: Task, patch: str) -> Verdict:
    return Verdict(task.id, patch, ("a",) if "sum(prices)\n" in patch else (), ())


def worked(agent: CommandAgent, task: Task, says: Says | Policy = SCRIPT, budget: Budget = BUDGET, folders: Sequence[str] = ()) -> Rolled:
    """An attempt in a real sandbox."""
    policy = ScriptedPolicy(says) if isinstance(says, Sequence) or callable(says) else says

    async def test() -> Rolled:
        boxes = BwrapSandboxes(cells=1, folders=tuple(folders))
        try:
            return await rolled(Workbench(agent, boxes, grade, MemoryJournal()), policy, attempt(task, budget))
        finally:
            await boxes.close()

    return asyncio.run(test())


def read(turn: Turn) -> str:
    return ByteTokenizer().decode(turn.context.tolist())


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_it_sees_the_task_does_what_it_is_told_and_ends(task: Task, dialect: str) -> None:
    done = worked(small(dialect), task)
    assert done.trajectory.stop == "submitted"
    assert "+    return sum(prices)\n" in done.trajectory.submission
    first, second, _ = done.trajectory.turns
    assert task.instruction in read(first)
    assert '"name": "bash"' in read(first)
    assert "return sum(prices) - 1" in first.observation.content
    assert read(second).count("return sum(prices)") == 1  # what is new, and nothing twice
    assert first.state != second.state  # a turn's state is what the program has made of the files by then
    assert len(done.trajectory.segments) == 1


def test_a_server_of_text_is_evaluated_through_it_and_its_answers_are_not_to_be_trained_on(task: Task) -> None:
    with ScriptedEndpoint(SCRIPT) as endpoint:
        policy = EndpointPolicy(Chat(endpoint.url, "m"), context=400_000)
        done = worked(small("messages"), task, policy)
    assert done.trajectory.stop == "submitted"
    assert "+    return sum(prices)\n" in done.trajectory.submission
    assert not any(turn.action.trainable for turn in done.trajectory.turns)
    assert [message["role"] for message in endpoint.asked[-1]["messages"]] == ["system", "user", "assistant", "user", "assistant", "user"]


def test_instructions_are_words_whatever_they_look_like(tmp_path: Path) -> None:
    odd = replace(shop(tmp_path), instruction="{address} {model} $(id) `id` \"' \\ {instruction} end")
    done = worked(small(), odd)
    assert odd.instruction in read(done.trajectory.turns[0])


def test_what_names_no_tool_is_answered_aside_and_is_no_turn(task: Task) -> None:
    title = """
    body = {"messages": [{"role": "user", "content": "A title for this, please."}]}
    assert asked(sys.argv[2], "/v1/chat/completions", body)["choices"][0]["message"]["content"] == "Aside."
"""
    sessions: list[str] = []

    def says(session: str, number: int) -> str:
        sessions.append(session)
        return "Aside." if "#aside" in session else SCRIPT[number]

    done = worked(small(before=title), task, says)
    assert [len(segment.turns) for segment in done.trajectory.segments] == [3]
    assert sessions[0] == "a/0#aside0"
    assert done.trajectory.asides == 1


def test_where_tools_are_text_every_question_is_a_turn(task: Task) -> None:
    title = """
    body = {"messages": [{"role": "user", "content": "A title for this, please."}]}
    asked(sys.argv[2], "/v1/chat/completions", body)
"""
    done = worked(replace(small(before=title), calls_tools=False), task, lambda session, number: "Hm.")
    assert [len(segment.turns) for segment in done.trajectory.segments] == [1, 1]


def test_who_asks_aside_for_ever_has_failed(task: Task) -> None:
    title = """
    while True:
        asked(sys.argv[2], "/v1/chat/completions", {"messages": [{"role": "user", "content": "?"}]})
"""
    done = worked(small(before=title), task, lambda session, number: "Aside.")
    assert done.trajectory.stop == "failed"
    assert "aside" in str(done.fault)


def test_a_marked_retry_gets_the_answer_that_was_given(task: Task) -> None:
    twice = """
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function", "function": {"name": "bash"}}]}
    first = asked(sys.argv[2], "/v1/chat/completions", body)
    assert asked(sys.argv[2], "/v1/chat/completions", body, retries=1) == first
"""
    done = worked(small(before=twice), task)
    assert done.trajectory.stop == "submitted"
    assert [len(segment.turns) for segment in done.trajectory.segments] == [1, 3]


def test_tokens_are_counted_models_listed_and_other_places_are_not_here(task: Task) -> None:
    looks = """
    import urllib.error
    body = {"messages": [{"role": "user", "content": "hi"}]}
    assert asked(sys.argv[2], "/v1/messages/count_tokens", body)["input_tokens"] > 2
    with OPENER.open(sys.argv[2] + "/v1/models") as answer:
        assert json.load(answer)["data"][0]["id"] == "patchgrad"
    for path, status in (("/v1/embeddings", 404), ("/v1/messages", 400)):
        try:
            asked(sys.argv[2], path, {"messages": 5})
            raise AssertionError
        except urllib.error.HTTPError as error:
            assert error.code == status
"""
    assert worked(small(before=looks), task).trajectory.stop == "submitted"


def test_a_request_without_end_is_refused_and_the_attempt_goes_on(task: Task) -> None:
    large = """
    import urllib.error
    try:
        asked(sys.argv[2], "/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 8 * 2**20}]})
        raise AssertionError
    except (urllib.error.HTTPError, OSError):
        pass
"""
    assert worked(small(before=large), task).trajectory.stop == "submitted"


def test_nothing_else_of_the_network_is_there(task: Task) -> None:
    probe = """
    import socket
    for place in (("1.1.1.1", 53), ("127.0.0.1", 22)):
        try:
            socket.create_connection(place, timeout=2)
            raise AssertionError
        except OSError:
            pass
"""
    assert worked(small(before=probe), task).trajectory.stop == "submitted"


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (CommandAgent(("no-such-program", "{instruction}")), "No such file or directory: no-such-program"),
        (CommandAgent(("true", "{instruction}\0")), "null byte"),
        (shell("echo it lacks a key; exit 3"), "status 3 before it was answered: it lacks a key"),
        (shell("exit 0"), "status 0 before it was answered: it said nothing"),
    ],
)
def test_a_program_that_cannot_begin_has_failed_in_its_own_words(task: Task, agent: CommandAgent, says: str) -> None:
    done = worked(agent, task)
    assert done.trajectory.stop == "failed"
    assert says in str(done.fault)


def test_a_program_that_ends_badly_after_an_answer_ends_by_what_it_was_told(task: Task) -> None:
    odd = 'So.\n<tool_call>{"name": "bash", "arguments": {"unknown": 1}}</tool_call>'  # it raises KeyError
    done = worked(small(), task, [call(REPAIR), odd])
    assert done.trajectory.stop == "submitted"
    assert "+    return sum(prices)\n" in done.trajectory.submission


def test_a_command_that_does_not_end_ends_the_attempt_by_its_time(task: Task) -> None:
    short = replace(task, limits=replace(task.limits, command_seconds=2.0))
    done = worked(small(), short, [call(REPAIR), call("sleep 1000")])
    assert done.trajectory.stop == "time limit"
    assert done.trajectory.turns[-1].observation.failure == "timeout"
    assert "+    return sum(prices)\n" in done.trajectory.submission


def test_what_an_agent_does_to_its_own_program_is_its_own_doing(task: Task) -> None:
    done = worked(small(), task, [call(REPAIR), call("pkill -9 -f inside; kill -9 -1"), "Done."])
    assert done.trajectory.stop != "failed"


@pytest.mark.parametrize("forged", ["null", "{}", '{"path": 5}', '{"ended": "x", "words": ""}', "[" * 10_000, '{"method": "POST"}'])
def test_whoever_answers_in_place_of_the_program_ends_its_own_attempt_alone(task: Task, forged: str) -> None:
    code = (
        "import os, socket; place = os.path.expanduser('~/.patchgrad-program/line'); os.unlink(place); "
        "line = socket.socket(socket.AF_UNIX); line.bind(place); line.listen(); "
        "os.fork() and os._exit(0); os.setsid(); [os.close(n) for n in (0, 1, 2)]; taken = line.accept()[0]; "
        f"taken.recv(1 << 20); taken.sendall({forged!r}.encode()); taken.close()"
    )
    done = worked(small(), task, [call(REPAIR), call(f'python3 -c "{code}"'), "Done."])
    assert done.trajectory.stop in ("submitted", "time limit")
    assert "+    return sum(prices)\n" in done.trajectory.submission


def test_requests_that_are_no_turn_take_of_the_same_time(task: Task) -> None:
    polls = """
    import time
    while True:
        OPENER.open(sys.argv[2] + "/v1/models").close()
        time.sleep(0.3)
"""
    short = replace(task, limits=replace(task.limits, command_seconds=3.0))
    assert worked(small(before=polls), short).trajectory.stop == "time limit"


def test_a_body_may_come_in_chunks(task: Task) -> None:
    chunked = """
    import http.client
    line = http.client.HTTPConnection(sys.argv[2].removeprefix("http://"))
    parts, headers = [b'{"messages": ', b'[{"role": "user", "content": "hi"}]}'], {"Transfer-Encoding": "chunked"}
    line.request("POST", "/v1/messages/count_tokens", iter(parts), headers, encode_chunked=True)
    assert line.getresponse().status == 200
"""
    assert worked(small(before=chunked), task).trajectory.stop == "submitted"


def test_a_tool_that_is_named_by_its_type_alone_makes_no_aside(task: Task) -> None:
    typed = """
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "bash_20250124", "name": "bash"}]}
    asked(sys.argv[2], "/v1/messages", body)
"""
    done = worked(small(before=typed), task)
    assert [len(segment.turns) for segment in done.trajectory.segments] == [1, 3]


def test_half_a_letter_anywhere_in_a_request_ends_nothing(task: Task) -> None:
    odd = """
    half = "\\ud800"
    tool = {"type": "function", "function": {"name": "bash", "description": half, "parameters": {half: half}}}
    asked(sys.argv[2], "/v1/chat/completions", {"messages": [{"role": "user", "content": half}], "tools": [tool]})
    asked(sys.argv[2], "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": half}]})
"""
    said = 'So.\n<tool_call>{"name": "bash", "arguments": {"command": "echo \\ud800"}}</tool_call>'
    assert worked(small(before=odd), task, [said, said, "Done."]).trajectory.stop == "submitted"


class Picky(ScriptedPolicy):
    """A policy whose chat template refuses a word."""

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        if any("refuse me" in message.content for message in messages):
            raise NotAccepted("the chat template does not accept this conversation")
        return super().encode(messages, previous)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("tools", [(), ({"type": "function", "function": {"name": "bash"}},)])
def test_what_a_chat_template_refuses_ends_the_attempt_that_asked_alone(task: Task, path: str, tools: tuple[object, ...]) -> None:
    odd = f"""
    asked(sys.argv[2], "{path}", {{"messages": [{{"role": "user", "content": "refuse me"}}], "tools": {list(tools)}}})
"""
    done = worked(small(before=odd), task, Picky(SCRIPT))
    assert done.trajectory.stop == "failed"
    assert "what the policy cannot read" in str(done.fault)


def test_a_slow_policy_in_an_aside_takes_no_time_of_the_agents(task: Task) -> None:
    title = """
    asked(sys.argv[2], "/v1/chat/completions", {"messages": [{"role": "user", "content": "A title, please."}]})
"""
    slow = ScriptedPolicy(lambda session, number: "Aside.", delay=30.0)
    assert worked(small(before=title), task, slow, replace(BUDGET, seconds=3.0)).trajectory.stop == "failed"


def test_limits_of_the_recipe_end_it(task: Task) -> None:
    assert worked(small(), task, [call("true")] * 9, replace(BUDGET, turns=2)).trajectory.stop == "turn limit"
    assert worked(small(), task, [call("true")] * 9, replace(BUDGET, context=700)).trajectory.stop == "context limit"


def test_an_attempt_that_was_interrupted_begins_again(task: Task) -> None:
    asked: list[int] = []

    def says(session: str, number: int) -> str:
        asked.append(number)
        return SCRIPT[number]

    async def test() -> None:
        boxes = BwrapSandboxes(cells=2)
        bench = Workbench(small(), boxes, grade, MemoryJournal())
        try:
            await rolled(bench, ScriptedPolicy(says), attempt(task, replace(BUDGET, turns=2)))  # has no ending, as if it was cut
            done = await run_attempt((bench, ScriptedPolicy(says)), attempt(task))
            again = await run_attempt((bench, ScriptedPolicy(says)), attempt(task))
        finally:
            await boxes.close()
        assert done.verdict.stages == ("a",)
        assert again == done

    asyncio.run(test())
    assert asked == [0, 1, 0, 1, 2]


def test_it_cannot_begin_amid_another_attempt(task: Task) -> None:
    async def test() -> None:
        done = await rolled(Workbench(small(), boxes, grade, MemoryJournal()), ScriptedPolicy(SCRIPT), attempt(task))
        fork = replace(attempt(task), id="a/1", prefix=done.trajectory.turns[:1])
        with pytest.raises(ConfigError, match="begin at their first turn"):
            await run_attempt((Workbench(small(), boxes, grade), ScriptedPolicy(SCRIPT)), fork)
        await boxes.close()

    boxes = BwrapSandboxes(cells=2)
    asyncio.run(test())


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("aider {instruction}", "argv is a list of words"),
        ([], "argv is a list of words"),
        (["aider", 5], "argv is a list of words"),
        (["aider", "--yes"], "put {instruction} into argv"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(argv: Sequence[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        CommandAgent(argv)


def test_a_sandbox_without_a_loopback_is_refused_by_name() -> None:
    choice = AgentChoice(scaffold=Component("command", {"argv": ["true", "{instruction}"]}))
    grader = Grader(LandlockSandboxes())
    with pytest.raises(ConfigError, match="landlock has no loopback"):
        harness(choice, SandboxChoice(backend=Component("landlock")), grader, MemoryJournal(), lambda rollout: None)
