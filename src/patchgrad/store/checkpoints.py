"""The checkpoints of a run: `checkpoints/STEP/`, each written under another name and then renamed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.lock import WriterLock

POLICY = "policy"


class Checkpoints:
    """Each is there as a whole or not at all; `last` tells the name of the one that the run was at."""

    def __init__(self, folder: Path, lock: WriterLock, last: Callable[[], Any]) -> None:
        self._folder, self._lock, self._last = folder, lock, last

    def save(self, step: int | str, fill: Callable[[Path], None]) -> Path:
        """A new one; `fill` writes into the folder that it is given."""
        self._lock.require()
        path = self._folder / "checkpoints" / _step(step)
        files.put_folder(path, fill)
        return path

    def save_policy(self, fill: Callable[[Path], None]) -> Path:
        """Keeps the last policy as a whole model, beside checkpoints that have adapters alone."""
        self._lock.require()
        files.put_folder(self._folder / POLICY, fill)
        return self._folder / POLICY

    def all(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        found = [path for path in (self._folder / "checkpoints").glob("*") if path.is_dir() and path.name[0] != "."]
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def find(self, name: str | None = None) -> Path:
        """The checkpoint of this name, or the last one; `StoreError` names those that there are."""
        found = name or self._last()
        folder = self._folder / "checkpoints" / str(found)
        if found is None or not folder.is_dir():
            there = ", ".join(path.name for path in self.all()) or "none yet"
            raise StoreError(f"{self._folder} has no checkpoint {found or ''}; there are: {there}.")
        return folder

    def discard(self, step: int | str) -> None:
        """Delete a checkpoint that is no longer needed; one that is not there is no error."""
        self._lock.require()
        with files.writing(self._folder):
            files.remove_folder(self._folder / "checkpoints" / _step(step))

    def files(self, names: Iterable[str]) -> list[Path]:
        """All that these checkpoints consist of."""
        found = (path for name in sorted(names) for path in (self._folder / "checkpoints" / name).rglob("*"))
        return sorted(path for path in found if path.is_file())


def _step(step: int | str) -> str:
    return f"{step:06d}" if isinstance(step, int) else step
