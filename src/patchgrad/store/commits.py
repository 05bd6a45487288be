"""The commit point of a run, `state.json`: what is done, how to go on, and the sums of all that this rests on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.checkpoints import Checkpoints
from patchgrad.store.lock import WriterLock
from patchgrad.store.run_journal import RunJournal
from patchgrad.store.sums import Sum, Sums

_LISTS = ("tasks.jsonl", "metrics.jsonl")


class Tables(Protocol):
    """Files that are written whole."""

    def files(self) -> list[Path]:
        """All of them."""


class Commits:
    """Says what is done, and what of it is whole."""

    def __init__(self, folder: Path, lock: WriterLock, journal: RunJournal, tables: Sequence[Tables], checkpoints: Checkpoints) -> None:
        self._folder, self._lock = folder, lock
        self._journal, self._tables, self._checkpoints = journal, tables, checkpoints
        self._sums = Sums(folder)

    def state(self) -> dict[str, Any]:
        """What `save` said last; empty before the first time."""
        return {name: value for name, value in self._committed().items() if name != "committed"}

    def _committed(self) -> dict[str, Any]:
        path = self._folder / "state.json"
        if not path.exists():
            raise StoreError(f"{path} is gone; restore it from a copy.")
        return dict(files.loads(path))

    def save(self, state: Mapping[str, Any]) -> None:
        """Everything written so far reaches the disk, then the state is replaced as a whole."""
        self._lock.require()
        self._journal.sync()
        with files.writing(self._folder):
            for path in self._lists():
                files.sync(path)
        logs, recipe = self._logs(), self._folder / "recipe.toml"
        tables = [path for part in self._tables for path in part.files()]
        committed = self._sums.of(logs, [recipe, *tables, *self._checkpoints.files(kept(state))])
        files.put(self._folder / "state.json", (json.dumps({**state, "committed": committed}, indent=2) + "\n").encode())

    def whole(self) -> dict[Path, int]:
        """How many bytes of each log are whole; `StoreError` where what was committed is not."""
        committed: dict[str, Sum] | None = self._committed().get("committed")
        if committed is None:
            raise StoreError(f"{self._folder / 'state.json'} does not say what is done, so this run is damaged; restore it from a copy.")
        self._sums.check(committed, self._logs())
        done = {path: int(committed.get(str(path.relative_to(self._folder)), [0])[0]) for path in self._logs()}
        return {**done, **self._journal.records.whole(done), **self._journal.states.whole(done)}

    def _lists(self) -> list[Path]:
        return [path for name in _LISTS if (path := self._folder / name).exists()]

    def _logs(self) -> list[Path]:
        """All that only grows."""
        return [*self._journal.records.files(), *self._journal.states.packs(), *self._lists()]


def kept(state: Mapping[str, Any]) -> set[str]:
    """The checkpoints that a state names."""
    return {str(name) for name in (state.get("checkpoint"), *state.get("kept", ())) if name is not None}


def ends(folder: Path) -> dict[str, int]:
    """How many bytes of each file of a run are committed, by its path in the folder; what is not is of the phase under way."""
    committed = files.loads(folder / "state.json").get("committed") or {}
    return {name: int(told[0]) for name, told in committed.items()}
