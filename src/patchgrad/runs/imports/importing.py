"""Files of attempts, a row or a document each, in a folder of their own: what `patchgrad import` does.

files -> what each tells (`told`) -> attempts (`made`) -> tables of `AT_ONCE`, tasks, and a report that others can be compared with
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from patchgrad.config import dumps
from patchgrad.errors import ConfigError, Refuse, StoreError, TaskError, one_of_many
from patchgrad.evaluation import from_outcomes, over_tasks
from patchgrad.recipes.evaluation import Evaluation
from patchgrad.runs.imports import atif, messages
from patchgrad.runs.imports.made import rollout_of, task_of
from patchgrad.runs.imports.told import Told
from patchgrad.store import Run
from patchgrad.tasks.formats import files
from patchgrad.values import Report, Rollout, Task
from patchgrad.values.text import loaded

AT_ONCE = 100
"""Attempts in one table."""

TRAJECTORY = ".traj"
"""The ending of SWE-agent's files, which are JSON."""


@dataclass
class Found:
    """What was found so far: the tasks, how attempts at them ended, and rows and files that tell of no attempt."""

    tasks: dict[str, Task] = field(default_factory=dict)
    outcomes: dict[str, list[bool | None]] = field(default_factory=dict)
    submitted: dict[str, list[bool]] = field(default_factory=dict)
    stops: Counter[str] = field(default_factory=Counter)
    policies: dict[str, None] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    tokens: int = 0
    others: int = 0

    @property
    def attempts(self) -> int:
        return sum(map(len, self.outcomes.values()))

    @property
    def solved(self) -> int:
        return sum(row.count(True) for row in self.outcomes.values())

    def add(self, told: Told) -> Rollout:
        """The attempt; an id that is not there, or not for the first time, is made from the name of the task."""
        name = told.attempt or told.task
        self.names[name] += 1
        told = replace(told, attempt=name if self.names[name] == 1 else f"{name}#{self.names[name]}")
        made = rollout_of(told, self.tasks.get(told.task) or task_of(told))
        self.tasks.setdefault(made.task.id, made.task)
        self.policies.setdefault(told.policy)
        self.outcomes.setdefault(made.task.id, []).append(None if made.broken else made.solved)
        self.submitted.setdefault(made.task.id, []).append(made.trajectory.stop == "submitted")
        self.stops[made.trajectory.stop] += 1
        self.turns += len(made.trajectory.turns)
        self.tokens += sum(turn.action.tokens for turn in made.trajectory.turns)
        return made

    def report(self, name: str) -> Report:
        """The figures of all attempts."""
        most = max(map(len, self.outcomes.values()))
        found = from_outcomes(name, {task: tuple(row) for task, row in self.outcomes.items()}, most, 0.0)
        submitted = over_tasks([sum(row) / len(row) for row in self.submitted.values()], most)
        count = self.attempts
        return replace(found, submitted=submitted, turns=self.turns / count, action_tokens=self.tokens / count, stops=dict(self.stops))


def imported(sources: Sequence[str], out: Path, refuse: Refuse, name: str = "", most: int | None = None) -> Found:
    """All attempts of these files, or the first `most`, are in the folder `out`, which has to be new.

    `name` is what their policy is called; without one it is what the files say. A row that cannot be read goes to `refuse`. Raises
    `ConfigError` where there is no attempt at all.
    """
    found = Found()
    with Run.create(out, dumps(Evaluation(policy=name or "imported")), option="--out") as run:
        try:
            attempts = islice(_attempts(sources, found, refuse), most)
            number = 0
            while rollouts := [found.add(told) for told in islice(attempts, AT_ONCE)]:
                run.rollouts.write("evaluate", number, rollouts)
                number += 1
            if not number:
                raise ConfigError(
                    f"{' and '.join(sources)}: there is no attempt in it. An attempt is a row with a list of messages, "
                    "or a trajectory of Harbor's (ATIF)."
                )
            told = name or " and ".join(policy for policy in found.policies if policy) or "imported"
            run.about.write_import([Path(source).name for source in sources], told)
            run.results.write_reports([found.report(told)])
        except BaseException:
            run.close()
            shutil.rmtree(out, ignore_errors=True)  # it was made here, and holds nothing that the files do not
            raise
    return found


def _attempts(sources: Sequence[str], found: Found, refuse: Refuse) -> Iterator[Told]:
    """Those of all files, those that have no id of their own one by one, and several rows of one attempt as its streams."""
    for source in sources:
        waiting: Told | None = None
        for place, file, row in _rows(source, refuse):
            with one_of_many(refuse):
                told = _told(place, file, row)
                if told is None:
                    found.others += 1
                elif waiting is not None and told.attempt and told.attempt == waiting.attempt and row.get("context"):
                    waiting = replace(waiting, streams=(*waiting.streams, *told.streams))
                else:
                    if waiting is not None:
                        yield waiting
                    waiting = told
        if waiting is not None:
            yield waiting


def _told(place: str, file: Path, row: Mapping[str, Any]) -> Told | None:
    try:
        return atif.told(row, file) or messages.told(row, file.name.split(".")[0])
    except StoreError as error:
        raise StoreError(f"{place}: {str(error).rstrip('.')}; it is left out.") from error


def _rows(source: str, refuse: Refuse) -> Iterator[tuple[str, Path, Mapping[str, Any]]]:
    """Each row with its place and its file; of a folder those of all files in it whose endings say that they may hold attempts."""
    path = Path(source)
    if path.is_dir():
        parts = sorted(part for part in path.rglob("*") if part.name.endswith((*files.SUFFIXES, TRAJECTORY)) and part.is_file())
        for part in parts:
            with one_of_many(refuse):
                yield from _rows(str(part), refuse)
    elif path.name.endswith(TRAJECTORY) and path.is_file():
        yield str(path), path, _document(path)
    else:
        yield from ((place, path, row) for place, row in files.read(source, refuse))


def _document(path: Path) -> Mapping[str, Any]:
    try:
        found = loaded(path.read_bytes())
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} is no JSON that can be read ({error}).") from error
    if not isinstance(found, dict):
        raise TaskError(f"{path} is no object with columns.")
    return found
