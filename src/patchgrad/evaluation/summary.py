"""From attempts to a report.

An attempt that infrastructure broke (`Rollout.broken`) is no attempt: it is counted in `Report.faults`, left out of every share, and
bounded, because a figure that leaves out the hard tasks on which machines break would be too good.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from patchgrad.evaluation.figures import best_at_n, bounds, over_runs, over_tasks, pass_at_k
from patchgrad.learning.failures import failed
from patchgrad.values import UNKNOWN, Estimate, Group, Outcomes, Report, Rollout, Task, Trajectory

Scores = Mapping[str, Sequence[float]]
KINDS = {"workshop": "generated", "forge": "planted in packages", "history": "of histories"}


@dataclass(frozen=True, slots=True)
class Measured:
    """How attempts were made: `k` for pass@k, the seconds that they took, and what stands beside the numbers."""

    k: int
    seconds: float
    budget: Mapping[str, float]
    sampling: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)


def summarise(name: str, groups: Sequence[Group], how: Measured, scores: Scores | None = None) -> Report:
    """One policy's report over all attempts at all tasks.

    A task with fewer than `k` attempts left after faults counts with those that it has; one with none is left out. `scores` hold one for
    each attempt at a task, and make the best of k known.
    """
    outcomes = {group.task.id: tuple(None if one.broken else one.solved for one in group.rollouts) for group in groups}
    valid = [[rollout for rollout in group.rollouts if not rollout.broken] for group in groups]
    every = [rollout.trajectory for rollouts in valid for rollout in rollouts]
    report = from_outcomes(name, outcomes, how.k, how.seconds)
    return replace(
        report,
        submitted=over_tasks([_submitted(rollouts) for rollouts in valid if rollouts], report.attempts),
        turns=_mean([len(trajectory.turns) for trajectory in every]),
        action_tokens=_mean([sum(turn.action.tokens for turn in trajectory.turns) for trajectory in every]),
        context_tokens=_mean([reached(trajectory) for trajectory in every]),
        failures=failed(every),
        budget={**how.budget, **report.budget},
        stops=dict(Counter(trajectory.stop for trajectory in every)),
        best_at_n=_best(outcomes, scores, how.k) if scores is not None else UNKNOWN,
        sampling=dict(how.sampling),
        about=dict(how.about),
        parts=_parts(groups),
        instead=dict(Counter(turn.action.instead for one in every for turn in one.turns if turn.action.instead).most_common()),
    )


def from_outcomes(name: str, outcomes: Outcomes, k: int, seconds: float) -> Report:
    """What outcomes alone tell, by task and run: of predictions, say, whose attempts nobody saw."""
    valid = {task: [won for won in row if won is not None] for task, row in outcomes.items()}
    kept = {task: row for task, row in valid.items() if row}
    attempts = max(map(len, outcomes.values()), default=0)
    worst, best = bounds(outcomes)
    return Report(
        name=name,
        tasks=len(kept),
        attempts=attempts,
        pass_at_1=over_tasks([sum(row) / len(row) for row in kept.values()], attempts),
        pass_at_k=over_tasks([pass_at_k(len(row), sum(row), min(k, len(row))) for row in kept.values()]),
        submitted=UNKNOWN,
        turns=math.nan,
        action_tokens=math.nan,
        seconds=seconds,
        budget={"k": k},
        solved={task: sum(row) for task, row in kept.items()},
        stops={},
        faults=sum(won is None for row in outcomes.values() for won in row),
        outcomes=outcomes,
        over_runs=over_runs(outcomes.values()),
        worst=worst,
        best=best,
    )


def outcomes_of(report: Report) -> Outcomes:
    """What became of each attempt; an older report tells only how many solved a task, so the order is then of no meaning.

    `{"a": 2}` of 3 attempts -> `{"a": (True, True, False)}`.
    """
    if report.outcomes or not report.solved:
        return report.outcomes
    return {task: (True,) * count + (False,) * (report.attempts - count) for task, count in report.solved.items()}


def shares(report: Report) -> dict[str, float]:
    """The solved share of each task, for `compare`; a task at which every attempt broke has none."""
    valid = {task: [won for won in row if won is not None] for task, row in outcomes_of(report).items()}
    return {task: sum(row) / len(row) for task, row in valid.items() if row}


def counts(report: Report) -> list[tuple[int, int]]:
    """(solved, attempts) of each task, for `within`."""
    return [(sum(won is True for won in row), sum(won is not None for won in row)) for row in outcomes_of(report).values()]


def reached(trajectory: Trajectory) -> int:
    """The tokens of the longest context that an attempt came to, as its server counted them where the ids only spell it."""
    longest = 0
    for segment in trajectory.segments:
        total = 0
        for turn in segment.turns:
            usage = turn.action.usage
            total = total + len(turn.context) + turn.action.tokens if usage is None else usage.prompt + usage.completion
        longest = max(longest, total)
    return longest


def kind_of(task: Task) -> str:
    """What kind of task it is: `generated`, or what its source is called."""
    source = task.tags.get("source", "")
    return KINDS.get(source, source or "others")


def _parts(groups: Sequence[Group]) -> dict[str, Estimate]:
    kinds = sorted({kind_of(group.task) for group in groups})
    return {kind: _solved([group for group in groups if kind_of(group.task) == kind]) for kind in kinds} if len(kinds) > 1 else {}


def _solved(groups: Sequence[Group]) -> Estimate:
    valid = [[one.solved for one in group.rollouts if not one.broken] for group in groups]
    return over_tasks([sum(row) / len(row) for row in valid if row], max(map(len, valid), default=0))


def _best(outcomes: Outcomes, scores: Scores, n: int) -> Estimate:
    found = []
    for task, row in outcomes.items():
        told = [(score, won) for score, won in zip(scores[task], row, strict=True) if won is not None]
        if told:
            found.append(best_at_n([score for score, _ in told], [won for _, won in told], min(n, len(told))))
    return over_tasks(found)


def _submitted(rollouts: Sequence[Rollout]) -> float:
    return sum(rollout.trajectory.stop == "submitted" for rollout in rollouts) / len(rollouts)


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers)) if numbers else math.nan
