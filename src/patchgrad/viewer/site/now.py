"""What a run is at, by what its files say: attempts that began and ended since the last commit, and how old the newest fact is."""

from __future__ import annotations

import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from patchgrad.errors import PatchgradError
from patchgrad.store import Run, commits, files
from patchgrad.store.journal_index import heading
from patchgrad.viewer.words import counted


class Now:
    """Reads of the journal what it has more than a look before, and other files when they are others. What is committed is not read."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._step, self._at = "", (0, 0, 0)  # the last commit, and which file said it
        self._committed: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._begun: dict[str, set[str]] = {}
        self._ended: dict[str, set[str]] = {}

    def told(self) -> dict[str, Any]:
        """A sentence, when the newest file was written, and how many seconds ago; of a run that is at its end no time is told."""
        try:
            self._look()
            step, last = self._step, _last(self._recipe)
        except (PatchgradError, OSError, ValueError):
            return {"said": "Its files cannot be read just now.", "newest": None, "age": None}
        if self._run.evaluates and (self._run.folder / "report.json").exists():
            return {"said": "Its report is written.", "newest": None, "age": None}
        if step and step == last and not self._begun and not self._ended:
            return {"said": f"Its last phase, {step}, is committed.", "newest": None, "age": None}
        newest = max(map(_written, self._files()), default=0.0)
        return {"said": " ".join(self._sentences(step)), "newest": newest, "age": max(0.0, time.time() - newest)}

    def _look(self) -> None:
        about = (self._run.folder / "state.json").stat()
        if self._at != (at := (about.st_ino, about.st_size, about.st_mtime_ns)):
            self._commit()
            self._at = at
        for path in self._run.rollouts.files():
            size = path.stat().st_size
            if self._read.get(f"rollouts/{path.name}") != size:  # what is in a table has ended
                self._note(self._ended, _attempts(path))
                self._read[f"rollouts/{path.name}"] = size
        for path in self._run.journal.records.files():
            name = f"journal/{path.name}"
            for offset, line in files.lines(path, self._read.get(name, 0)):
                attempt, kind = heading(line)
                self._note(self._ended if kind == "ending" else self._begun, [attempt])
                self._read[name] = offset + len(line)

    def _commit(self) -> None:
        self._step, committed = str(self._run.state().get("step", "")), commits.ends(self._run.folder)
        if committed != self._committed:
            self._committed, self._read, self._begun, self._ended = committed, dict(committed), {}, {}

    @staticmethod
    def _note(found: dict[str, set[str]], attempts: Sequence[str]) -> None:
        for attempt in attempts:
            found.setdefault(attempt.rpartition("/")[0].rpartition("/")[0], set()).add(attempt)

    def _sentences(self, step: str) -> Iterator[str]:
        """`stage1/3: 40 of 64 attempts ended, 5 more begun since stage1-2 was committed.`"""
        planned, since = _planned(self._recipe), f" since {step} was committed" if step else ""
        for label in dict.fromkeys([*self._begun, *self._ended]):
            began, ended = self._begun.get(label, set()), self._ended.get(label, set())
            count = Counter("+" in attempt.rpartition("/")[2] for attempt in ended)
            most = planned.get(label.partition("/")[0])
            told = [f"{count[False]} of {counted(most, 'attempt')} ended" if most else f"{counted(count[False], 'attempt')} ended"]
            told += [f"{counted(count[True], 'fork')} ended"] if count[True] else []
            told += [f"{len(began - ended)} more begun"] if began - ended else []
            yield f"{label}{': ' if label else ''}{', '.join(told)}{since}."
        if not self._begun and not self._ended:
            yield f"No attempt has begun{since}."

    @cached_property
    def _recipe(self) -> Mapping[str, Any]:
        return tomllib.loads(self._run.recipe)

    def _files(self) -> list[Path]:
        run = self._run
        return [
            *run.journal.records.files()[-1:],
            *run.rollouts.files(),
            *(run.folder / name for name in ("metrics.jsonl", "report.json", "state.json")),
        ]


def _attempts(path: Path) -> list[str]:
    import pyarrow
    import pyarrow.parquet

    with suppress(OSError, pyarrow.ArrowException):
        return [str(name) for name in pyarrow.parquet.read_table(path, columns=["attempt"]).column("attempt").to_pylist()]
    return []


def _written(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _planned(recipe: Mapping[str, Any]) -> dict[str, int]:
    """How many attempts the recipe plans for an iteration of each phase, where it says so; forks come on top."""
    found = {f"stage{number}": stage.get("sampling") for number, stage in enumerate(recipe.get("stages") or (), 1)}
    sizes = {"rft": recipe.get("rft"), **found}
    told = {name: (size.get("tasks"), size.get("attempts")) for name, size in sizes.items() if isinstance(size, Mapping)}
    return {name: tasks * attempts for name, (tasks, attempts) in told.items() if isinstance(tasks, int) and isinstance(attempts, int)}


def _last(recipe: Mapping[str, Any]) -> str:
    """The phase at which a run of this recipe is at its end."""
    stages = len(recipe.get("stages") or ())
    return f"evaluate-stage{stages}" if stages else "evaluate-rft"
