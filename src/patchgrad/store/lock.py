"""The writer's lock: one process writes a run folder at a time, and one that only reads writes nothing."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from patchgrad.errors import StoreError
from patchgrad.store import files


class WriterLock:
    """May this process write here? The kernel gives the lock back even when the process is killed."""

    def __init__(self, folder: Path, descriptor: int | None = None) -> None:
        self._folder, self._descriptor = folder, descriptor

    @classmethod
    def acquire(cls, folder: Path) -> WriterLock:
        """The lock of this folder, on a file that is never replaced; `StoreError` where another process has it."""
        with files.writing(folder):
            descriptor = os.open(folder / "recipe.toml", os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise StoreError(f"Another process is writing to {folder}; wait for it, or start another run with --run.") from None
        return cls(folder, descriptor)

    @property
    def held(self) -> bool:
        """Does this process have it?"""
        return self._descriptor is not None

    def require(self) -> None:
        """`StoreError` where the folder was opened for reading."""
        if self._descriptor is None:
            raise StoreError(f"{self._folder} was opened for reading; go on with it through Run.resume.")

    def release(self) -> None:
        """Give it back; once more is no error."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
