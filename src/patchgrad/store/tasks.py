"""The tasks of a run, each once: `tasks.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from patchgrad.errors import Refuse, StoreError, one_of_many, stop
from patchgrad.store import files
from patchgrad.store.codec import plain, value
from patchgrad.store.lock import WriterLock
from patchgrad.values import Task


def read_tasks(path: Path, refuse: Refuse = stop, known: Container[str] = ()) -> Iterator[Task]:
    """The tasks of a file, one a line, but for those that are `known`; what is wrong with a line goes to `refuse`."""
    for record in files.records(path, refuse):
        with one_of_many(refuse):
            name = record.get("id") if isinstance(record, dict) else None
            if not isinstance(name, str):
                raise StoreError(f"{path} has a line that is no task, as it has no id; restore it from a copy.")
            if name not in known:
                yield value(Task, record)


class Tasks:
    """Tasks by their ids, as they were stored first."""

    def __init__(self, folder: Path, lock: WriterLock) -> None:
        self._folder, self._lock = folder, lock
        self._known: dict[str, Task] = {}

    def all(self, refuse: Refuse = stop) -> dict[str, Task]:
        """Every task that was stored, by id; a line that is none goes to `refuse`."""
        for task in read_tasks(self._folder / "tasks.jsonl", refuse, self._known):
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
