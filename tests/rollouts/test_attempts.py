"""Attempts that go on: after a sandbox that broke, after a process that was killed, and as forks of one another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.journals import Over, forgotten, unknown
from tests.learning.test_provenance import harness, judged, tasks, worth
from tests.rollouts.test_loop import command

from patchgrad.contracts import Result
from patchgrad.errors import SandboxFault
from patchgrad.learning.failures import kept, kinds
from patchgrad.learning.provenance import Requirements, violation
from patchgrad.policies.scripted import ScriptedPolicy
from patchgrad.rollouts.attempts import NEUTRAL, run_attempts
from patchgrad.rollouts.harness import Harness
from patchgrad.store import Run, plain
from patchgrad.testing.sandbox_double import LocalSandbox, LocalSandboxes
from patchgrad.values import Attempt, Budget, Rollout, Snapshot, Task, Turn, Verdict

BUDGET = Budget(9, 100_000)
SCRIPT = [command("edit --file shop/cart.py 2:2 'total += x'"), command("cat shop/cart.py"), command("submit")]


class Killed(BaseException):
    """What `kill -9` is to a test."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", "") as created:
        yield created


def made(harness: Harness, item: Attempt, policy: ScriptedPolicy | None = None) -> Rollout:
    (rollout,) = asyncio.run(run_attempts(harness, policy or ScriptedPolicy(SCRIPT), [item], worth))
    return rollout


def attempt(task: Task, name: str, seed: int = 1, prefix: tuple[Turn, ...] = (), origin: str = "") -> Attempt:
    return Attempt(task, name, seed, BUDGET, NEUTRAL, prefix, origin)


def test_an_attempt_that_was_interrupted_after_any_turn_ends_as_it_would_have(tmp_path: Path, run: Run) -> None:
    (task, _) = tasks(tmp_path)
    whole = made(replace(harness(run), journal=Over(run.journal, ending=forgotten)), attempt(task, "whole/0"))
    for number in range(len(SCRIPT)):
        item, taken = attempt(task, f"killed{number}/0"), list[str]()

        async def written(name: str, turn: Turn, taken: list[str] = taken, last: int = number) -> None:
            await run.journal.turn(name, turn)
            taken.append(turn.address)
            if len(taken) == last + 1:
                raise Killed

        with pytest.raises(Killed):
            made(replace(harness(run), journal=Over(run.journal, turn=written)), item)
        again = made(replace(harness(run), journal=Over(run.journal, turn=written)), item)
        assert taken == [turn.address for turn in again.trajectory.turns], "no turn is taken twice"
        assert again.trajectory.submission == whole.trajectory.submission != ""
        assert [turn.observation.content for turn in again.trajectory.turns] == [t.observation.content for t in whole.trajectory.turns]
        assert [turn.state for turn in again.trajectory.turns] == [turn.state for turn in whole.trajectory.turns]


def test_an_attempt_that_had_ended_is_neither_made_nor_judged_again(tmp_path: Path, run: Run) -> None:
    (task, _) = tasks(tmp_path)
    first = made(harness(run), attempt(task, "a/0"))

    async def never(task: Task, patch: str) -> Verdict:
        raise AssertionError("it was judged")

    again = made(replace(harness(run), grade=never), attempt(task, "a/0"), ScriptedPolicy([]))
    assert plain(again) == plain(first)


class Breaking(LocalSandboxes):
    """Sandboxes of which the first few break at a command that reads."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
        opened = await super().open(task, state)
        run, pool = opened.run, self

        async def breaking(command: str, timeout: float | None = None) -> Result:
            if command.startswith("cat") and pool.times:
                pool.times -= 1
                raise SandboxFault("it is gone")
            return await run(command, timeout)

        opened.run = breaking  # type: ignore[method-assign]
        return opened


@pytest.mark.parametrize(("times", "stop"), [(0, "submitted"), (2, "submitted"), (3, "submitted"), (4, "sandbox lost")])
def test_where_a_sandbox_breaks_the_attempt_goes_on_in_another(tmp_path: Path, run: Run, times: int, stop: str) -> None:
    (task, _) = tasks(tmp_path)
    done = made(replace(harness(run), sandboxes=Breaking(times)), attempt(task, "a/0"))
    assert done.trajectory.stop == stop
    assert not done.broken
    if stop == "submitted":
        assert [turn.observation.failure for turn in done.trajectory.turns] == [None] * 3
        assert "+total += x" in done.trajectory.submission
        assert violation(done, Requirements(run.journal.holds)) is None


def test_a_judgement_that_a_sandbox_broke_is_asked_for_again(tmp_path: Path, run: Run) -> None:
    (task, _) = tasks(tmp_path)
    faults = ["gone", "gone again"]

    async def breaking(task: Task, patch: str) -> Verdict:
        return replace(await judged(task, patch), fault=faults.pop() if faults else None)

    assert not made(replace(harness(run), grade=breaking), attempt(task, "a/0")).broken


def test_a_fork_goes_on_from_the_files_and_is_trained_on_its_own_turns_alone(tmp_path: Path, run: Run) -> None:
    (task, _) = tasks(tmp_path)
    source = made(harness(run), attempt(task, "a/0"))
    prefix = source.trajectory.turns[:1]
    forks = [attempt(task, f"fork/{number}", number, prefix, "a/0") for number in range(2)]
    for item in forks:
        done = made(harness(run), item)
        trajectory = done.trajectory
        assert (trajectory.origin, trajectory.replayed, len(trajectory.turns)) == ("a/0", 1, 3)
        assert "total += x" in trajectory.turns[1].observation.content, "it finds what the first turn left"
        assert violation(done, Requirements(run.journal.holds, frozenset({0}))) is None
        assert violation(replace(done, trajectory=replace(trajectory, replayed=0)), Requirements(run.journal.holds)) == "journal", (
            "they are a/0's"
        )
        assert kinds(trajectory)[0] == "replayed"
        assert kept(trajectory).tolist() == [False] * len(prefix[0].action.token_ids) + [True] * sum(
            len(turn.action.token_ids) for turn in trajectory.turns[1:]
        )
        assert [t.address for t in run.journal.records.attempt(item.id, item.root)[0]] == [t.address for t in trajectory.turns[1:]]
        assert plain(made(harness(run), item, ScriptedPolicy([]))) == plain(done), "and is known when it is asked for again"
    boxes = LocalSandboxes()
    whole = replace(harness(run), sandboxes=boxes, journal=Over(run.journal, recall=unknown))
    for item in forks:
        made(whole, replace(item, id=f"again/{item.id[-1]}"))
    assert boxes.opened == 3, "one for each, and one that is asked what all of them began with"
    run.rollouts.write("fork", 0, [made(harness(run), item) for item in forks])
    assert [one.trajectory.replayed for one in run.rollouts.read("fork", 0)] == [1, 1]
