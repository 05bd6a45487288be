"""mini-swe-agent, unchanged, as an agent: what it sees and says, how it ends, that it goes on in another process, and that it trains.

Skipped where the package is nowhere: `make test` installs it beside the project's environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.rollouts.test_loop import FILES, TASK

from patchgrad.agents.gateway import MiniSweAgent
from patchgrad.agents.gateway.mini import ENVIRONMENT, SCRIPT
from patchgrad.agents.gateway.programs import Programs, programs
from patchgrad.agents.tools import Bash, View
from patchgrad.contracts import Extend, Finish, Restart
from patchgrad.errors import ConfigError, MissingDependency, ProgramFault
from patchgrad.policies.scripted import ByteTokenizer, ScriptedPolicy
from patchgrad.rollouts.access import Alone
from patchgrad.rollouts.attempts import NEUTRAL, run_attempt
from patchgrad.rollouts.harness import Workbench
from patchgrad.rollouts.journals import MemoryJournal
from patchgrad.rollouts.loop import Rolled, rolled
from patchgrad.testing.examples import example_turn
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.values import Attempt, Budget, Call, Malformed, Task, Trajectory, Turn, Verdict

PYTHON = os.environ.get("PATCHGRAD_MINI", str(Path(sys.prefix) / "agents" / "mini-swe-agent" / "bin" / "python"))
TOOLS = {"bash": Bash(View(lines=40, limit=2000, brief=True))}
BUDGET = Budget(turns=8, context=100_000)
FIX = "sed -i '2s/= x/+= x/' shop/cart.py"


@pytest.fixture
def agent() -> MiniSweAgent:
    if not (Path(PYTHON).is_file() and list(Path(PYTHON).parents[1].glob("lib/python3*/site-packages/minisweagent"))):
        pytest.skip("PATCHGRAD_MINI names no Python that has mini-swe-agent, and make test could not install it")
    return MiniSweAgent(TOOLS, prompts="brief", python=PYTHON)


def call(command: str, thought: str = "So.") -> str:
    return f"{thought}\n<tool_call>\n{json.dumps({'name': 'bash', 'arguments': {'command': command}})}\n</tool_call>"


DONE = call("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


def bench(agent: MiniSweAgent, journal: MemoryJournal | None = None) -> Workbench:
    async def grade(task: Task, patch: str) -> Verdict:
        return Verdict(task.id, patch, ("a",) if "+total += x" in patch else (), ())

    return Workbench(agent, LocalSandboxes(FILES), grade, journal or MemoryJournal())


def attempt(name: str = "a/0", budget: Budget = BUDGET) -> Attempt:
    return Attempt(TASK, name, 1, budget, NEUTRAL)


def worked(agent: MiniSweAgent, script: Sequence[str] | Callable[[str, int], str], budget: Budget = BUDGET) -> Rolled:
    return asyncio.run(rolled(bench(agent), ScriptedPolicy(script), attempt(budget=budget)))


def read(turn: Turn) -> str:
    return ByteTokenizer().decode([int(token) for token in turn.context])


def test_it_sees_the_issue_runs_commands_and_submits(agent: MiniSweAgent) -> None:
    done = worked(agent, [call("cat shop/cart.py"), call(FIX), DONE]).trajectory
    assert done.stop == "submitted"
    assert "+total += x" in done.submission
    assert [turn.call for turn in done.turns[:2]] == [Call("bash", "cat shop/cart.py"), Call("bash", FIX)]
    assert [read(turn) for turn in done.turns[:2]] == [
        "user\ntotal is wrong",
        "user\n<tool_response>\ntotal = 0\ntotal = x\n\n</tool_response>",
    ]
    assert len(done.segments) == 1


def test_its_own_prompts_are_those_of_the_package(agent: MiniSweAgent) -> None:
    done = worked(replace(agent, prompts="full"), [call("cat shop/cart.py"), DONE]).trajectory
    first = read(done.turns[0])
    assert "Please solve this issue: total is wrong" in first
    assert '"name": "bash"' in first
    assert '"returncode": 0' in read(done.turns[1])


def test_settings_take_the_place_of_its_own(agent: MiniSweAgent) -> None:
    settings = {"agent": {"instance_template": "Now: {{task}}", "step_limit": 1}}
    done = worked(replace(agent, settings=settings), [call("true")] * 3).trajectory
    assert read(done.turns[0]) == "user\nNow: total is wrong"
    assert (done.stop, len(done.turns)) == ("turn limit", 1)


def test_what_it_cannot_read_begins_another_stream_in_its_own_words(agent: MiniSweAgent) -> None:
    script: dict[str, list[str]] = {"#0": ["I would rather talk."], "#1": [call(FIX), DONE]}
    done = worked(agent, lambda session, number: script[session[-2:]][number]).trajectory
    assert done.stop == "submitted"
    assert [len(segment.turns) for segment in done.segments] == [1, 2]
    assert isinstance(done.turns[0].call, Malformed)
    assert done.turns[0].observation.failure == "malformed"
    assert "No tool calls found" in read(done.turns[1])


def test_it_gives_up_after_three_answers_that_it_cannot_read(agent: MiniSweAgent) -> None:
    assert worked(agent, lambda session, number: "hm").trajectory.stop == "format errors"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('<tool_call>{"name": "python", "arguments": {"command": "1"}}</tool_call>', "unknown tool"),
        ('<tool_call>{"name": "bash", "arguments": {"code": "1"}}</tool_call>', "bad arguments"),
        ('<tool_call>{"name": "bash", "arguments": {"command": 5}}</tool_call>', "bad arguments"),
    ],
)
def test_a_call_that_is_none_of_bash_is_malformed_for_both(agent: MiniSweAgent, text: str, kind: str) -> None:
    script = {"#0": [text, DONE], "#1": [DONE]}
    done = worked(agent, lambda session, number: script[session[-2:]][number]).trajectory
    assert isinstance(done.turns[0].call, Malformed)
    assert done.turns[0].call.kind == kind
    assert done.stop == "submitted"


def test_of_two_calls_the_first_is_made(agent: MiniSweAgent) -> None:
    done = worked(agent, [f"{call('echo one')}\n{call('echo two')}", DONE]).trajectory
    assert "one" in read(done.turns[1])
    assert "two" not in read(done.turns[1])
    assert len(done.segments) == 1


def test_commands_that_end_badly_are_told(agent: MiniSweAgent) -> None:
    told = "{{output.exception_info}}|{{output.returncode}}|{{output.output}}"
    loud = replace(agent, settings={"model": {"observation_template": told}})
    done = worked(loud, [call("echo x; exit 3"), call("sleep 60"), DONE]).trajectory
    assert "|3|x" in read(done.turns[1])
    assert "timeout" in read(done.turns[2])


def test_limits_of_the_recipe_end_it(agent: MiniSweAgent) -> None:
    assert worked(agent, [call("true")] * 9, replace(BUDGET, turns=2)).trajectory.stop == "turn limit"
    assert worked(agent, [call("true")] * 9, replace(BUDGET, context=80)).trajectory.stop == "context limit"


def test_an_attempt_that_was_interrupted_goes_on_in_another_process(agent: MiniSweAgent) -> None:
    script: list[str] = [call("cat shop/cart.py"), "hm", call(FIX), call("cat shop/cart.py"), DONE]

    def says(session: str, number: int) -> str:
        return script[number + 1] if session.endswith("#1") else script[number]  # which begins with the first answer, and not with "hm"

    whole = asyncio.run(rolled(bench(agent), ScriptedPolicy(says), attempt())).trajectory
    for kept in range(1, len(whole.turns)):

        async def again(count: int = kept) -> Trajectory:
            journal = MemoryJournal()
            first = await rolled(bench(agent, journal), ScriptedPolicy(says), attempt(budget=replace(BUDGET, turns=count)))
            assert first.trajectory.stop == "turn limit"
            return (await run_attempt((bench(agent, journal), ScriptedPolicy(says)), attempt())).trajectory

        found = asyncio.run(again())
        assert [turn.address for turn in found.turns] == [turn.address for turn in whole.turns]
        assert [len(segment.turns) for segment in found.segments] == [2, 3]
        assert (found.stop, found.submission) == (whole.stop, whole.submission)


def test_an_attempt_that_has_ended_is_not_made_again(agent: MiniSweAgent) -> None:
    async def test() -> None:
        journal = MemoryJournal()
        first = await run_attempt((bench(agent, journal), ScriptedPolicy([call(FIX), DONE])), attempt())
        second = await run_attempt((bench(agent, journal), ScriptedPolicy([])), attempt())
        assert second.trajectory.turns == first.trajectory.turns

    asyncio.run(test())


def test_a_program_that_asks_for_something_else_than_it_did_is_a_fault(agent: MiniSweAgent) -> None:
    async def test() -> None:
        other = replace(agent, settings={"agent": {"instance_template": "Otherwise: {{task}}"}})
        journal, policy = MemoryJournal(), ScriptedPolicy([call("true")] * 9)
        first = await rolled(bench(other, journal), policy, attempt(budget=replace(BUDGET, turns=2)))
        done = await rolled(bench(agent, journal), policy, attempt(), first.trajectory.turns)
        assert done.trajectory.stop == "failed"
        assert isinstance(done.fault, ProgramFault)
        assert "something else before turn 1" in str(done.fault)

    asyncio.run(test())


def test_a_process_that_is_killed_is_a_fault_and_the_next_attempt_works(agent: MiniSweAgent) -> None:
    async def test() -> None:
        conversation = agent.begin("Mend it.")
        assert isinstance(await conversation.prompt((), Alone()), Extend)
        forked = programs(PYTHON, SCRIPT, ENVIRONMENT)
        os.kill(forked._process.pid, signal.SIGKILL)
        asking = conversation.prompt((example_turn("", call("true")),), Alone())
        with pytest.raises(ProgramFault, match="the program"):
            async with asyncio.timeout(60):
                await asking
        await conversation.close()
        done = await rolled(bench(agent), ScriptedPolicy([DONE]), attempt())
        assert done.trajectory.stop == "submitted"

    asyncio.run(test())


def test_many_attempts_at_once_have_each_its_own(agent: MiniSweAgent) -> None:
    async def one(number: int) -> str:
        policy = ScriptedPolicy([call(f"echo {number} > mine.txt"), call("cat mine.txt"), DONE])
        done = await rolled(bench(agent), policy, attempt(f"a/{number}"))
        return read(done.trajectory.turns[2])

    async def test() -> Sequence[str]:
        return await asyncio.gather(*(one(number) for number in range(12)))

    assert asyncio.run(test()) == [f"user\n<tool_response>\n{number}\n\n</tool_response>" for number in range(12)]


def test_closing_a_conversation_ends_its_process(agent: MiniSweAgent) -> None:
    async def test() -> None:
        conversation = agent.begin("Mend it.")
        await conversation.prompt((), Alone())
        host = programs(PYTHON, SCRIPT, ENVIRONMENT)._process.pid
        assert len(children(host)) == 1
        await conversation.close()
        await conversation.close()
        for _ in range(100):
            if not children(host):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the process goes on")

    asyncio.run(test())


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_what_it_starts_ends_with_it(agent: MiniSweAgent) -> None:
    made = Programs(PYTHON, SCRIPT, ENVIRONMENT)
    ended: list[str] = []
    job = {"instruction": "x", "settings": {}, "address": "http://127.0.0.1:9", "token": "t"}
    made.start(job, lambda status, detail: ended.append(status))
    process = made._process
    made.close()
    assert process.poll() is not None


def test_no_key_of_an_account_reaches_it(agent: MiniSweAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example")
    made = Programs(PYTHON, SCRIPT, ENVIRONMENT)
    said = Path(f"/proc/{made._process.pid}/environ").read_text()
    made.close()
    assert "sk-secret" not in said
    assert "proxy.example" not in said


def test_a_python_that_lacks_it_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no program /nowhere"):
        MiniSweAgent(TOOLS, python="/nowhere")

    async def begin() -> Extend | Restart | Finish:
        conversation = MiniSweAgent(TOOLS, python=sys.executable).begin("x")
        try:
            return await conversation.prompt((), Alone())
        finally:
            await conversation.close()

    with pytest.raises(ConfigError, match=r"cannot be imported by .*No module named 'minisweagent'"):
        asyncio.run(begin())
    with pytest.raises(MissingDependency, match=r"pip install 'patchgrad\[mini-swe-agent\]'"):
        MiniSweAgent(TOOLS)
