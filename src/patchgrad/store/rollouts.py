"""The rollouts of a run: a table for each phase and iteration, beside the tasks and the turns that its rows name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchgrad.errors import Refuse, StoreError, one_of_many, stop
from patchgrad.store import table
from patchgrad.store.lock import WriterLock
from patchgrad.store.run_journal import RunJournal
from patchgrad.store.tasks import Tasks
from patchgrad.values import Rollout, Task


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

    def read(self, phase: str, iteration: int | None = None, refuse: Refuse = stop, attempt: str = "") -> list[Rollout]:
        """The rollouts of a phase exactly as they were, every turn verified; tasks as they were stored first.

        An attempt that is damaged goes to `refuse`; where one is named, only that is read.
        """
        tasks, found = self._tasks.all(refuse), []
        for row in self.rows(phase, iteration, refuse=refuse, attempt=attempt):
            with one_of_many(refuse):
                found.append(self._rollout(row, tasks))
        return found

    def _rollout(self, row: dict[str, Any], tasks: Mapping[str, Task]) -> Rollout:
        name = row["task"]
        if name not in tasks:
            raise StoreError(f"{self._folder / 'tasks.jsonl'} has no task {name}, of which there are attempts; restore it from a copy.")
        try:
            return table.rollout(row, tasks[name], self._journal.records.turn)
        except (StoreError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"The attempt {row['attempt']} cannot be read: {error}") from error

    def rows(
        self,
        phase: str = "*",
        iteration: int | None = None,
        columns: Sequence[str] | None = None,
        refuse: Refuse = stop,
        attempt: str = "",
    ) -> list[dict[str, Any]]:
        """The tables' rows as dicts, by phase and iteration, for pages and figures; `rows()` gives all of them. Where an
        `attempt` is named, which `columns` then have, its row alone.

        A damaged table goes to `refuse`.
        """
        number = "[0-9]" * 5 if iteration is None else f"{iteration:05d}"
        return table.read(self.files(f"{phase}-{number}"), columns, refuse, attempt)

    def files(self, names: str = "*") -> list[Path]:
        """The tables whose names match, by phase and iteration."""
        return sorted((self._folder / "rollouts").glob(f"{names}.parquet"), key=_natural)


def _natural(path: Path) -> tuple[str | int, ...]:
    """`stage10` after `stage2`."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name))
