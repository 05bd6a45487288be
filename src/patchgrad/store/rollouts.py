"""The rollouts of a run: a table for each phase and iteration, beside the tasks and the turns that its rows name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.store import table
from patchgrad.store.lock import WriterLock
from patchgrad.store.run_journal import RunJournal
from patchgrad.store.tasks import Tasks
from patchgrad.values import Rollout


class Rollouts:
    """`rollouts/PHASE-ITERATION.parquet`, one row a rollout."""

    def __init__(self, folder: Path, lock: WriterLock, tasks: Tasks, journal: RunJournal) -> None:
        self._folder, self._lock = folder, lock
        self._tasks, self._journal = tasks, journal

    def write(self, phase: str, iteration: int, rollouts: Sequence[Rollout]) -> None:
        """One table for this phase and iteration, with the tasks and turns that it names; a second call replaces the table."""
        self._lock.require()
        self._tasks.add(rollout.task for rollout in rollouts)
        self._journal.add(rollouts)
        table.write(self._folder / "rollouts" / f"{phase}-{iteration:05d}.parquet", phase, iteration, rollouts)

    def read(self, phase: str, iteration: int | None = None) -> list[Rollout]:
        """The rollouts of a phase exactly as they were, every turn verified; tasks as they were stored first."""
        tasks, rows = self._tasks.all(), self.rows(phase, iteration)
        if lost := next((row["task"] for row in rows if row["task"] not in tasks), None):
            raise StoreError(f"{self._folder / 'tasks.jsonl'} has no task {lost}, of which there are attempts; restore it from a copy.")
        return [table.rollout(row, tasks[row["task"]], self._journal.records.turn) for row in rows]

    def rows(self, phase: str = "*", iteration: int | None = None, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The tables' rows as dicts, by phase and iteration, for pages and figures; `rows()` gives all of them."""
        number = "[0-9]" * 5 if iteration is None else f"{iteration:05d}"
        return table.read(self.files(f"{phase}-{number}"), columns)

    def files(self, names: str = "*") -> list[Path]:
        """The tables whose names match, by phase and iteration."""
        return sorted((self._folder / "rollouts").glob(f"{names}.parquet"), key=_natural)


def _natural(path: Path) -> tuple[str | int, ...]:
    """`stage10` after `stage2`."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name))
