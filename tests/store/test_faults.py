"""A disk that is full, and a process that dies in the middle of any write, rename or flush: a run goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.store.test_store import attempt

from patchgrad.errors import StoreError
from patchgrad.store import Run, plain, run_journal
from patchgrad.store.files import put
from patchgrad.values import Ending, Snapshot

ITERATIONS = 2
CALLS = ("write", "replace", "rename", "fsync", "truncate")


class Dead(BaseException):
    """What `kill -9` and a power cut are to a test."""


class Failing:
    """The file layer of a process of which one call fails: the `at`-th, in one of the ways below."""

    def __init__(self, how: str, at: int) -> None:
        self.how, self.at, self.calls = how, at, 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self.of(getattr(os, name)))
            yield

    def of(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **more: Any) -> Any:
            self.calls += 1
            if self.calls - 1 != self.at:
                return real(*words, **more)
            if real.__name__ == "write":  # a part of it arrives
                real(words[0], words[1][: len(words[1]) // 2])
            if self.how == "dies":
                raise Dead
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call


def step(run: Run, number: int) -> None:
    """An iteration as a course makes it: attempts that are known are not made again, then tables, figures, weights, and the commit."""
    rollouts = [attempt(f"rl/{number}/{n}", solved=n == 0, turns=2 + n) for n in range(2)]
    for rollout in rollouts:
        taken = rollout.trajectory.turns
        known, ending = run.journal.known(rollout.trajectory.id, taken[0].parent)
        for turn in taken[len(known) :]:
            run.journal.states.put(Snapshot(turn.state, {}))
            asyncio.run(run.journal.turn(rollout.trajectory.id, turn))
        if ending is None:
            asyncio.run(run.journal.ending(rollout.trajectory.id, Ending(taken[-1].address, "submitted", "diff", rollout.verdict)))
    run.rollouts.write("rl", number, rollouts)
    run.results.write_metrics({"phase": "rl", "iteration": number, "pass_at_1": 0.5})
    run.checkpoints.save(f"rl-{number}", lambda folder: put(folder / "model", f"weights {number}".encode()))
    run.save_state({"position": number + 1, "checkpoint": f"rl-{number}", "kept": [f"rl-{n}" for n in range(number)]})


def go_on(folder: Path) -> None:
    with Run.resume(folder) if (folder / "run.json").exists() else Run.create(folder, "seed = 1\n") as run:
        for number in range(run.state().get("position", 0), ITERATIONS):
            step(run, number)


def told(folder: Path) -> Any:
    """All that a reader can see."""
    run = Run.open(folder)
    return (
        sorted((record.trajectory, record.address) for record in run.journal.records.records()),
        [plain(rollout) for number in range(ITERATIONS) for rollout in run.rollouts.read("rl", number)],
        run.results.metrics(),
        {path.name: (path / "model").read_text() for path in run.checkpoints.all()},
        run.state(),
        sorted(path.name for path in folder.iterdir()),
    )


@pytest.mark.parametrize("how", ["dies", "is full"])
def test_whatever_call_fails_the_run_goes_on_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(run_journal, "WINDOW", 0.0)  # so that every turn is flushed, and flushes fail too
    counting = Failing(how, -1)
    with counting.installed():
        go_on(tmp_path / "whole")
    expected = told(tmp_path / "whole")
    assert counting.calls > 60
    for number in range(counting.calls):
        folder, failing = tmp_path / f"{number}", Failing(how, number)
        with failing.installed(), pytest.raises((Dead, StoreError)):
            go_on(folder)
        if (folder / "run.json").exists():
            Run.open(folder).results.metrics()  # it can be read as it was left
        go_on(folder)
        assert told(folder) == expected, f"call {number} failed"
