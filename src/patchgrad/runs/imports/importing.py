"""Files of attempts, a row or a document each, in a folder of their own: what `patchgrad import` does.

files -> what each tells (`told`) -> attempts (`made`) -> tables of `AT_ONCE`, tasks, and a report that others can be compared with
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
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
from patchgrad.store.about import occupied
from patchgrad.store.files import new_folder
from patchgrad.tasks.formats import files
from patchgrad.values import Report, Rollout, Task
from patchgrad.values.text import BOM, parsed, well_formed, whole

AT_ONCE = 100
"""Attempts in one table."""

TRAJECTORY = ".traj"
"""The ending of SWE-agent's files, which are JSON."""

ENDINGS = (*files.SUFFIXES, TRAJECTORY, ".ndjson")
ODD = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What is raised where something of a stranger's file has another form than it was taken for."""

Placed = tuple[str, Path, Mapping[str, Any]]


@dataclass
class Found:
    """What was found so far: the tasks, how attempts at them ended, and rows and files that tell of no attempt."""

    tasks: dict[str, Task] = field(default_factory=dict)
    outcomes: dict[str, list[bool | None]] = field(default_factory=dict)
    submitted: dict[str, list[bool]] = field(default_factory=dict)
    stops: Counter[str] = field(default_factory=Counter)
    policies: dict[str, None] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)
    taken: set[str] = field(default_factory=set)
    turns: int = 0
    tokens: int = 0
    others: int = 0

    @property
    def attempts(self) -> int:
        return sum(map(len, self.outcomes.values()))

    @property
    def solved(self) -> int:
        return sum(row.count(True) for row in self.outcomes.values())

    def made(self, told: Told, refuse: Refuse) -> Iterator[Rollout]:
        """The attempt, unless it is refused; an id that is not there, or not for the first time, is made from the name of the task."""
        name = told.attempt or told.task
        try:
            made = rollout_of(replace(told, attempt=self._free(name)), self.tasks.get(told.task) or task_of(told))
        except ODD as error:
            refuse(StoreError(f"{name}: {_why(error)}; it is left out."))
            return
        self._count(told, made)
        yield made

    def _free(self, name: str) -> str:
        """An id that no attempt has yet: `a`, `a#2`, `a#3`."""
        numbers = (name if number == 1 else f"{name}#{number}" for number in count(self.names[name] + 1))
        return next(one for one in numbers if one not in self.taken)

    def _count(self, told: Told, made: Rollout) -> None:
        self.names[told.attempt or told.task] += 1
        self.taken.add(made.trajectory.id)
        self.tasks.setdefault(made.task.id, made.task)
        self.policies.setdefault(told.policy)
        self.outcomes.setdefault(made.task.id, []).append(None if made.broken else made.solved)
        self.submitted.setdefault(made.task.id, []).append(made.trajectory.stop == "submitted")
        self.stops[made.trajectory.stop] += 1
        self.turns += len(made.trajectory.turns)
        self.tokens += sum(turn.action.tokens for turn in made.trajectory.turns)

    def report(self, name: str) -> Report:
        """The figures of all attempts."""
        most = max(map(len, self.outcomes.values()))
        submitted = over_tasks([sum(row) / len(row) for row in self.submitted.values()], most)
        turns, tokens = self.turns / self.attempts, self.tokens / self.attempts
        found = from_outcomes(name, {task: tuple(row) for task, row in self.outcomes.items()}, most, 0.0)
        return replace(found, submitted=submitted, stops=dict(self.stops), turns=turns, action_tokens=tokens)


def imported(sources: Sequence[str], out: Path, refuse: Refuse, name: str = "", most: int | None = None) -> Found:
    """All attempts of these files, or the first `most`, are in the folder `out`, which has to be new; it is there whole, or not at all.

    `name` is what their policy is called; without one it is what the files say. A row or a file that cannot be read goes to `refuse`.
    Raises `ConfigError` where there is no attempt at all.
    """
    if not all(sources):
        raise ConfigError("An empty name is no file: name what is to be imported.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise occupied(out, "--out")
    found = Found()
    if not new_folder(out, lambda partial: _fill(partial, sources, found, refuse, name, most)):
        raise occupied(out, "--out")
    return found


def _fill(folder: Path, sources: Sequence[str], found: Found, refuse: Refuse, name: str, most: int | None) -> None:
    with Run.create(folder, dumps(Evaluation(policy="imported", name=name)), option="--out") as run:
        attempts = islice(_attempts(sources, found, refuse), None if most is None else min(most, sys.maxsize))
        made = (rollout for told in attempts for rollout in found.made(told, refuse))
        number = 0
        while rollouts := list(islice(made, AT_ONCE)):
            run.rollouts.write("evaluate", number, rollouts)
            number += 1
        if not number:
            raise ConfigError(
                f"{' and '.join(sources)}: there is no attempt in it that can be read. An attempt is a row with a list of messages, "
                "or a trajectory of Harbor's (ATIF)."
            )
        told = name or " and ".join(policy for policy in found.policies if policy) or "imported"
        run.about.write_import([Path(source).name for source in sources])
        run.results.write_reports([found.report(told)])


def _attempts(sources: Sequence[str], found: Found, refuse: Refuse) -> Iterator[Told]:
    """Those of all files, where several rows tell of one attempt with all of its streams."""
    waiting: Told | None = None
    for place, file, row in _all_rows(sources, refuse):
        told: Told | None = None
        with one_of_many(refuse):
            told = _told(place, file, row)
            found.others += told is None
        if told is None:
            continue
        if waiting is not None and told.goes_on and (told.attempt, told.task) == (waiting.attempt, waiting.task) and told.attempt:
            waiting = replace(waiting, streams=(*waiting.streams, *told.streams), usage=())
            continue
        if waiting is not None:
            yield waiting
        waiting = told
    if waiting is not None:
        yield waiting


def _told(place: str, file: Path, row: Mapping[str, Any]) -> Told | None:
    """What a row tells; `StoreError` for one that is not what an attempt looks like, whatever about it is not."""
    try:
        whole(row)
        name = well_formed(_stem(file))
        return atif.told(row, file, name) or messages.told(row, name)
    except (StoreError, *ODD) as error:
        raise StoreError(f"{place}: {_why(error)}; it is left out.") from error


def _why(error: Exception) -> str:
    return str(error).rstrip(".") if isinstance(error, StoreError) else f"it is not what an attempt looks like ({error})"


def _stem(file: Path) -> str:
    """The name of a file without the endings that say what it is: `a__b.1fd5.c.traj.json` is `a__b.1fd5.c`."""
    name = file.name
    while ending := next((one for one in ENDINGS if name.lower().endswith(one) and len(name) > len(one)), None):
        name = name[: -len(ending)]
    return name


def _all_rows(sources: Sequence[str], refuse: Refuse) -> Iterator[Placed]:
    for source in sources:
        with one_of_many(refuse):
            yield from _rows(source, refuse)


def _rows(source: str, refuse: Refuse) -> Iterator[Placed]:
    """Each row with its place and its file; of a folder those of all files in it whose endings say that they may hold attempts."""
    path = Path(source)
    if path.is_dir():
        named = [part for part in files.beneath(path, refuse) if part.name.lower().endswith(ENDINGS)]
        for part in sorted((part for part in named if part.is_file() and not atif.beside(part)), key=_order):
            with one_of_many(refuse):
                yield from _rows(str(part), refuse)
    elif path.name.endswith(TRAJECTORY) and path.is_file():
        yield str(path), path, _document(path)
    else:
        yield from ((place, path, row) for place, row in files.read(source, refuse))


def _order(path: Path) -> tuple[str, int, list[tuple[bool, int, str]]]:
    """By folder and name, numbers by their size, and what goes on after what it goes on from."""
    parts = re.split(r"(\d+)", path.name)
    return str(path.parent), path.name.count(".cont-"), [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _document(path: Path) -> Mapping[str, Any]:
    try:
        found = parsed(path.read_bytes().removeprefix(BOM))
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} is no JSON that can be read ({error}).") from error
    if not isinstance(found, dict):
        raise TaskError(f"{path} is no object with columns.")
    return found
