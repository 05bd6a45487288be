"""Where the verbs read tasks from: a set's folder, a run's folder, or the file of tasks in a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchgrad.cli.options import nearest
from patchgrad.errors import Refuse, Refused, TaskError, stop
from patchgrad.store import Run
from patchgrad.store.tasks import read_tasks
from patchgrad.tasks.sets import TASKS, Member, members
from patchgrad.values import Task


@dataclass(frozen=True, slots=True)
class Known:
    """A task, and what a set tells beside it; a run tells nothing."""

    task: Task
    member: Member | None = None


def read(source: Path, refuse: Refuse = stop) -> dict[str, Known]:
    """The tasks by id, in their order; a row that is no task goes to `refuse`."""
    if source.is_dir() and (source / TASKS).is_file() and not (source / "run.json").exists():
        return {member.task.id: Known(member.task, member) for member in members(source, refuse)}
    if not source.is_file():
        return {name: Known(task) for name, task in Run.open(source).tasks.all(refuse).items()}
    return {task.id: Known(task) for task in read_tasks(source, refuse)}


def one(source: Path, name: str) -> Known:
    """The task of this id, whatever the others are; `TaskError` names the nearest where there is none."""
    refused = Refused()
    found = read(source, refused)
    refused.unless(found)
    if name not in found:
        raise TaskError(f"There is no task {name} in {source}; {nearest(name, list(found)[:2000])[:400]}")
    return found[name]


def hardness(runs: list[Path], name: str) -> dict[str, tuple[int, int]]:
    """How hard a task has been: (solved, attempts) by phase over these runs."""
    found: dict[str, tuple[int, int]] = {}
    for run in runs:
        for row in Run.open(run).rollouts.rows(columns=["task", "phase", "solved"]):
            if row["task"] == name:
                solved, attempts = found.get(row["phase"], (0, 0))
                found[row["phase"]] = (solved + bool(row["solved"]), attempts + 1)
    return found
