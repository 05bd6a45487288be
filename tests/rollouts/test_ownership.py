"""Who failed: the agent by what it did in its sandbox, or a machine, which is no judgement of anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.journals import Over
from tests.learning.test_provenance import harness, judged, tasks, worth
from tests.rollouts.test_attempts import SCRIPT, Killed, attempt, made
from tests.rollouts.test_loop import AGENT, FILES, command

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import FunctionTool
from patchgrad.contracts import Result, Sandbox
from patchgrad.errors import PolicyFault, SandboxFault
from patchgrad.evaluation.summary import Measured, summarise
from patchgrad.learning.failures import Treatment, failed, kept, kinds
from patchgrad.learning.provenance import Requirements, violation
from patchgrad.learning.selection import sound
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.rollouts.attempts import run_attempts
from patchgrad.rollouts.ownership import REOPENED
from patchgrad.runs.inspection.replay import replay
from patchgrad.store import Run
from patchgrad.testing.sandbox_double import LocalSandbox, LocalSandboxes
from patchgrad.values import Ending, Group, Snapshot, Task, ToolState, Verdict

HOLES = command("for i in 1 2 3 4 5 6; do truncate -s 200M s$i; done")
LOSING = [command("echo x > kept"), HOLES, command("submit")]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", "") as created:
        yield created


class Breaking(LocalSandboxes):
    """Sandboxes that break at these commands, so many times."""

    def __init__(self, words: tuple[str, ...], times: int = 1 << 30) -> None:
        super().__init__(FILES)
        self.words, self.times, self.tried = words, times, 0

    async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
        opened = await super().open(task, state)
        run, pool = opened.run, self

        async def breaking(command: str, timeout: float | None = None) -> Result:
            if command.startswith(pool.words) and pool.times:
                pool.times, pool.tried = pool.times - 1, pool.tried + 1
                raise SandboxFault("it is gone")
            return await run(command, timeout)

        opened.run = breaking  # type: ignore[method-assign]
        return opened


def test_an_agent_that_leaves_more_than_the_host_keeps_has_failed_and_counts(tmp_path: Path, run: Run) -> None:
    (task, _) = tasks(tmp_path)
    lost = made(harness(run), attempt(task, "a/0"), ScriptedPolicy(LOSING))
    assert (lost.trajectory.stop, lost.trajectory.submission, lost.broken, lost.solved) == ("sandbox lost", "", False, False)
    assert kinds(lost.trajectory) == [None, "sandbox lost"]
    assert "256 MiB" in lost.trajectory.turns[-1].observation.content
    assert lost.trajectory.turns[-1].state == lost.trajectory.turns[0].state, "the last state that was kept"
    assert violation(lost, Requirements(run.journal.holds)) is None
    won = made(harness(run), attempt(task, "a/1"))
    report = summarise("x", [Group((lost, won))], Measured(1, 0.0, {}))
    assert (report.outcomes, report.faults) == ({task.id: (False, won.solved)}, 0)
    assert report.stops["sandbox lost"] == 1
    assert failed([lost.trajectory]) == {"sandbox lost": 1}
    assert sound([Group((lost, won))])[0].rollouts == (lost, won), "it is trained on as any other"


@pytest.mark.parametrize("treatment", ["keep", "withhold", "penalise", "mask", "drop"])
def test_what_becomes_of_the_turn_that_lost_its_sandbox_is_the_row_s_to_say(tmp_path: Path, run: Run, treatment: Treatment) -> None:
    lost = made(harness(run), attempt(tasks(tmp_path)[0], "a/0"), ScriptedPolicy(LOSING)).trajectory
    trained = np.split(kept(lost, {"sandbox lost": treatment}), [len(lost.turns[0].action.token_ids)])
    assert [bool(part.all()) for part in trained] == [treatment != "drop", treatment not in ("mask", "drop")]


def test_a_replay_loses_the_sandbox_at_the_same_turn(tmp_path: Path, run: Run) -> None:
    (task, _) = tasks(tmp_path)
    lost = made(harness(run), attempt(task, "a/0"), ScriptedPolicy(LOSING)).trajectory

    async def again() -> list[tuple[str, bool]]:
        async with await harness(run).sandboxes.open(task) as sandbox:
            return [(one.answer, one.same_state) async for one in replay(lost.turns, AGENT, sandbox)]

    assert asyncio.run(again()) == [("equal", True), ("equal", True)]


def test_a_tool_of_the_user_s_that_meets_a_lost_sandbox_is_not_at_fault(tmp_path: Path, run: Run) -> None:
    async def state(arguments: str, sandbox: Sandbox, state: ToolState) -> str:
        "state: the address of the files"
        await sandbox.run("truncate -s 300M hole")
        return (await sandbox.snapshot()).address

    agent = ReactAgent({"state": FunctionTool(state)}, prompts="brief")
    done = made(replace(harness(run), agent=agent), attempt(tasks(tmp_path)[0], "a/0"), ScriptedPolicy([command("state")]))
    assert (done.trajectory.stop, done.broken) == ("sandbox lost", False)


def test_an_attempt_that_was_killed_after_it_lost_its_sandbox_has_lost_it_when_it_goes_on(tmp_path: Path, run: Run) -> None:
    (task, _) = tasks(tmp_path)

    async def killed(name: str, ending: Ending) -> None:
        raise Killed

    with pytest.raises(Killed):
        made(replace(harness(run), journal=Over(run.journal, ending=killed)), attempt(task, "a/0"), ScriptedPolicy(LOSING))
    again = made(harness(run), attempt(task, "a/0"), ScriptedPolicy(LOSING))
    assert (again.trajectory.stop, len(again.trajectory.turns)) == ("sandbox lost", 2)


def test_a_job_that_goes_on_after_the_last_command_loses_the_sandbox_too(tmp_path: Path, run: Run) -> None:
    later = command("(sleep 0.3; truncate -s 300M late) > /dev/null 2>&1 &")
    done = made(harness(run), attempt(tasks(tmp_path)[0], "a/0"), ScriptedPolicy([later, command("sleep 1"), command("submit")]))
    assert (done.trajectory.stop, done.broken) == ("sandbox lost", False)


@pytest.mark.parametrize("script", [SCRIPT, SCRIPT[1:]], ids=["a later command", "the first command"])
def test_a_sandbox_that_breaks_under_one_command_again_and_again_was_broken_by_it(tmp_path: Path, run: Run, script: list[str]) -> None:
    boxes = Breaking(("cat",))
    done = made(replace(harness(run), sandboxes=boxes), attempt(tasks(tmp_path)[0], "a/0"), ScriptedPolicy(script))
    assert (done.trajectory.stop, done.broken, boxes.tried) == ("sandbox lost", False, 2 + REOPENED)
    assert done.trajectory.turns[-1].observation.failure == "sandbox lost"
    assert violation(done, Requirements(run.journal.holds)) is None


def test_where_no_sandbox_works_nobody_is_to_blame(tmp_path: Path, run: Run) -> None:
    boxes = Breaking(("cat", "true"))
    done = made(replace(harness(run), sandboxes=boxes), attempt(tasks(tmp_path)[0], "a/0"))
    assert (done.trajectory.stop, done.broken) == ("failed", True)


def test_an_outage_that_ends_leaves_the_attempt_as_it_would_have_been(tmp_path: Path, run: Run) -> None:
    done = made(replace(harness(run), sandboxes=Breaking(("cat",), 1 + REOPENED)), attempt(tasks(tmp_path)[0], "a/0"))
    assert (done.trajectory.stop, [turn.observation.failure for turn in done.trajectory.turns]) == ("submitted", [None] * 3)


def test_a_policy_that_does_not_answer_is_never_the_agent_s_failure(tmp_path: Path, run: Run) -> None:
    class Silent(ScriptedPolicy):
        asked = 0

        async def act(self, *arguments: object) -> object:  # type: ignore[override]
            self.asked += 1
            raise PolicyFault("no answer")

    policy = Silent([])
    done = made(harness(run), attempt(tasks(tmp_path)[0], "a/0"), policy)
    assert (done.trajectory.stop, done.broken, policy.asked) == ("failed", True, 1 + REOPENED)


def test_a_submission_that_breaks_the_grader_s_sandbox_again_and_again_is_unpaid_with_evidence(tmp_path: Path, run: Run) -> None:
    async def breaking(task: Task, patch: str) -> Verdict:
        return replace(await judged(task, patch), fault="it is gone" if "total += x" in patch else None)

    done = made(replace(harness(run), grade=breaking), attempt(tasks(tmp_path)[0], "a/0"))
    assert (done.broken, done.solved, done.reward.value) == (False, False, 0.0)
    assert "broke the grader's sandbox 4 times" in done.verdict.tamper[0]
    assert violation(done, Requirements(run.journal.holds)) is None


def test_a_grader_that_breaks_under_anything_is_infrastructure(tmp_path: Path, run: Run) -> None:
    async def breaking(task: Task, patch: str) -> Verdict:
        return replace(await judged(task, patch), fault="it is gone")

    assert made(replace(harness(run), grade=breaking), attempt(tasks(tmp_path)[0], "a/0")).broken


def test_neighbours_of_an_attempt_that_lost_its_sandbox_end_as_they_would_alone(tmp_path: Path, run: Run) -> None:
    (task, _) = tasks(tmp_path)
    alone = made(harness(run), attempt(task, "alone/0")).trajectory

    async def both() -> list[str]:
        policies = {"a/0": ScriptedPolicy(SCRIPT), "b/0": ScriptedPolicy(LOSING)}
        beside = [run_attempts(harness(run), policy, [attempt(task, name)], worth) for name, policy in policies.items()]
        return [rollout.trajectory.submission for (rollout,) in await asyncio.gather(*beside)]

    assert asyncio.run(both()) == [alone.submission, ""]
