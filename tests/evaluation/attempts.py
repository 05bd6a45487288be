"""Attempts with a known outcome, for tests of the figures that are made of them."""

from __future__ import annotations

from collections.abc import Sequence

from patchgrad.evaluation import Measured, summarise
from patchgrad.testing.tasks import a_task
from patchgrad.values import (
    Action,
    Call,
    Group,
    Observation,
    Report,
    Reward,
    Rollout,
    Segment,
    Stop,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
)


def attempt(task: str, solved: bool, stop: Stop = "submitted", fault: str | None = None, source: str = "") -> Rollout:
    turn = Turn(ids([1]), Action(ids([2, 3]), floats([-1, -1]), 0, "x", "stop"), Call("a", ""), Observation("", ToolState()), "s", "")
    verdict = Verdict(task, "", ("ran",), (TestOutcome("t", "fail_to_pass", "passed" if solved else "failed"),), fault=fault)
    value = a_task(task, fail_to_pass=("t",), tags={"source": source})
    return Rollout(value, Trajectory(task, task, (Segment((turn,)),), stop, ""), verdict, Reward(float(solved), {}))


def group(task: str, *solved: bool | None, source: str = "") -> Group:
    """An attempt for each outcome; `None` is one that infrastructure broke."""
    stops: list[Stop] = ["failed" if one is None else "submitted" for one in solved]
    return Group(tuple(attempt(task, bool(one), stop, source=source) for one, stop in zip(solved, stops, strict=True)))


def report(name: str, rows: Sequence[Sequence[bool | None]], k: int = 1, **budget: float) -> Report:
    """A report of tasks 0, 1, ... with these outcomes by run."""
    return summarise(name, [group(str(number), *row) for number, row in enumerate(rows)], Measured(k, 60.0, budget))
