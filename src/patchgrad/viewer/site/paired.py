"""Two reports on the same tasks: what each solved, task by task, and whether the difference is more than chance (`evaluation.versus`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from patchgrad.errors import ConfigError, StoreError
from patchgrad.evaluation import versus
from patchgrad.evaluation.summary import outcomes_of
from patchgrad.store import Run
from patchgrad.values import Report

Place = tuple[int, int]
"""The number of a run, and that of a report in it."""


def outcomes(run: Run) -> list[dict[str, Any]]:
    """Of each report how many of its attempts solved a task, of those that did not break, and where these attempts are listed.

    `[{"name": "base", "phase": "evaluate-1", "tasks": {"a": [1, 4]}}]`
    """
    return [{"name": one.name, "phase": _phase(run, number), "tasks": _counted(one)} for number, one in enumerate(run.results.reports(), 1)]


def _counted(report: Report) -> dict[str, tuple[int, int]]:
    valid = {task: [won for won in row if won is not None] for task, row in outcomes_of(report).items()}
    return {task: (sum(row), len(row)) for task, row in valid.items()}


def _phase(run: Run, number: int) -> str:
    """What the attempts behind a report are filed under; nothing where they are not in the run."""
    name = "evaluate" if run.evaluates else f"evaluate-{number}"
    return name if run.rollouts.files(f"{name}-00000") else ""


def compared(runs: Sequence[Run], one: str, two: str) -> dict[str, Any]:
    """The second report minus the first, each as `RUN:REPORT` in numbers, or the `error` why not; `StoreError` where there is none."""
    return _compared(*(_report(runs, which) for which in (one, two)))


def every(runs: Sequence[Run]) -> dict[str, Any]:
    """All comparisons of reports on the same tasks, by `"0:1 0:2"`; of the others why there is none."""
    return dict(_every({(number, place): report for number, run in enumerate(runs) for place, report in enumerate(run.results.reports())}))


def _every(reports: Mapping[Place, Report]) -> Iterator[tuple[str, dict[str, Any]]]:
    for one, first in reports.items():
        for two, second in reports.items():
            if one != two:
                yield f"{one[0]}:{one[1]} {two[0]}:{two[1]}", _compared(first, second)


def _compared(first: Report, second: Report) -> dict[str, Any]:
    try:
        found = versus(first, second)
    except ConfigError as error:
        return {"error": str(error)}
    return {"sentence": found.sentence, "faults": [first.faults, second.faults], **asdict(found)}


def _report(runs: Sequence[Run], which: str) -> Report:
    run, _, place = which.partition(":")
    if run.isdecimal() and place.isdecimal() and int(run) < len(runs):
        reports = runs[int(run)].results.reports()
        if int(place) < len(reports):
            return reports[int(place)]
    raise StoreError(f"There is no report {which}.")
