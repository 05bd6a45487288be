"""What a run's journal has since the last commit: the attempts that no table has yet, read as they grow and never from the beginning."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgrad.errors import PatchgradError
from patchgrad.store import Run, commits, files
from patchgrad.store.journal import Ended, record_at
from patchgrad.store.journal_index import Place, heading
from patchgrad.values import Ending

Stamp = tuple[int, int, int]
NEVER: Stamp = (0, 0, 0)
SETTLED = 2_000_000_000
"""Nanoseconds after which whatever is written to a folder gives it another time."""


@dataclass(slots=True)
class Going:
    """An attempt that no table has: where its turns stand, and its ending once there is one."""

    turns: list[Place] = field(default_factory=list)
    ending: Ending | None = None


class Recent:
    """Reads of the journal what it has more than a look before, and of a table its attempts' names, once. What is committed is not read.

    `step` is the last commit. `going` are the attempts that no table has, oldest first; `tabled` those of tables since the commit.
    Whoever reads them holds the `lock`, as another request may look meanwhile.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.step = ""
        self.going: dict[str, Going] = {}
        self.tabled: set[str] = set()
        self.lock = threading.RLock()
        self._commit = NEVER  # which file said what is committed
        self._committed: dict[str, int] | None = None
        self._read: dict[str, int] = {}
        self._tables = NEVER  # the folder of tables when it was read

    def look(self) -> None:
        """Reads what is new. Raises `OSError`, `ValueError` or `PatchgradError` where the files cannot be read."""
        with self.lock:
            if self._cut():
                self._forget()
            if self._commit != (at := _stamp(self.run.folder / "state.json")):
                self._commits()
                self._commit = at
            if self._tables != (at := _stamp(self.run.folder / "rollouts")):
                self._look_at_tables()
                self._tables = at if time.time_ns() - at[2] > SETTLED else NEVER  # within a tick of the clock a table may follow
            self._look_at_journal()

    def begun(self) -> Iterator[tuple[str, bool]]:
        """The attempts since the last commit, and whether each has ended."""
        yield from ((name, True) for name in self.tabled)
        yield from ((name, one.ending is not None) for name, one in self.going.items())

    def _commits(self) -> None:
        """From here on another part of the journal is new; attempts of iterations that were begun ahead are still under way."""
        state, committed = self.run.state(), commits.ends(self.run.folder)
        self.step = str(state.get("step", ""))
        if committed == self._committed:
            return
        ahead = tuple(f"{one['label']}/" for one in state.get("ahead", {}).get("batches", ()))
        first, self._committed = self._committed is None, committed
        self._tables = NEVER
        self.tabled, self.going = set(), {name: one for name, one in self.going.items() if ahead and name.startswith(ahead)}
        if ahead and first:  # what they had before the commit was not read yet
            self._look_at_journal(ahead)
        for one in self.going.values():  # what stands behind the commit is read again
            one.turns = [place for place in one.turns if place[1] < committed.get(f"journal/{place[0].name}", 0)]
        self._read = dict(committed)

    def _cut(self) -> bool:
        """Has who went on with the run cut what was torn, or taken files back?"""
        return any(path.stat().st_size < self._read.get(f"journal/{path.name}", 0) for path in self.run.journal.records.files())

    def _forget(self) -> None:
        self._commit, self._committed, self._tables = NEVER, None, NEVER
        self.going, self.tabled, self._read = {}, set(), {}

    def _look_at_tables(self) -> None:
        for path in self.run.rollouts.files():
            name, size = f"rollouts/{path.name}", path.stat().st_size
            if self._read.get(name) != size:
                self.tabled.update(_attempts(path))
                self._read[name] = size
        self.going = {name: one for name, one in self.going.items() if name not in self.tabled}

    def _look_at_journal(self, only: tuple[str, ...] = ("",)) -> None:
        """Lines that are new; `only` those of attempts whose names begin so."""
        for path in self.run.journal.records.files():
            name, size = f"journal/{path.name}", path.stat().st_size
            if size <= self._read.get(name, 0):
                continue
            for offset, line in files.lines(path, self._read.get(name, 0)):
                self._read[name] = offset + len(line)
                attempt, kind = heading(line)
                if kind and attempt not in self.tabled and attempt.startswith(only):
                    self._note(attempt, kind, (path, offset))

    def _note(self, attempt: str, kind: str, place: Place) -> None:
        one = self.going.setdefault(attempt, Going())
        if kind == "turn":
            one.turns.append(place)
            return
        with suppress(PatchgradError):
            ended = record_at(*place)
            one.ending = ended.ending if isinstance(ended, Ended) else None


def told(going: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """What is otherwise than before, by name: null for what is no longer there."""
    return {**{name: None for name in before if name not in going}, **{name: one for name, one in going.items() if before.get(name) != one}}


def newest(paths: Sequence[Path]) -> float:
    """When the newest of these files was written; 0 where none is there."""
    return max(map(_written, paths), default=0.0)


def _written(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _stamp(path: Path) -> Stamp:
    about = path.stat()
    return about.st_ino, about.st_size, about.st_mtime_ns


def _attempts(path: Path) -> list[str]:
    import pyarrow
    import pyarrow.parquet

    with suppress(OSError, pyarrow.ArrowException):
        return [str(name) for name in pyarrow.parquet.read_table(path, columns=["attempt"]).column("attempt").to_pylist()]
    return []
