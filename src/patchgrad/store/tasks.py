"""The tasks of a run, each once: `tasks.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.codec import plain, value
from patchgrad.store.lock import WriterLock
from patchgrad.values import Task


class Tasks:
    """Tasks by their ids, as they were stored first."""

    def __init__(self, folder: Path, lock: WriterLock) -> None:
        self._folder, self._lock = folder, lock
        self._known: dict[str, Task] = {}

    def all(self) -> dict[str, Task]:
        """Every task that was stored, by id."""
        for record in files.records(self._folder / "tasks.jsonl"):
            if record.get("id") not in self._known:
                task = value(Task, record)
                self._known[task.id] = task
        return dict(self._known)

    def add(self, tasks: Iterable[Task]) -> None:
        """Store the tasks that are not there yet; an id that stands for another content is refused."""
        self._lock.require()
        known = self._known or self.all()
        for task in tasks:
            if task.id not in known:
                files.append(self._folder / "tasks.jsonl", json.dumps(plain(task)).encode() + b"\n")
                self._known[task.id] = known[task.id] = task
            elif known[task.id].digest() != task.digest():
                raise StoreError(f"Task {task.id} stands in {self._folder} with another content; give one of the two another id.")
