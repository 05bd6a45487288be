"""Files that a host has from the process that trains: archives of tasks, and the modules of a user's parts."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
import sys
from collections.abc import Mapping
from importlib import invalidate_caches
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.rollouts.executors.hosts.asking import Questions
from patchgrad.values import Repository


class Files:
    """Files by content, in a folder that other hosts of the machine may share."""

    def __init__(self, folder: Path, questions: Questions) -> None:
        self._folder, self._questions = folder, questions
        self._coming: dict[str, asyncio.Task[None]] = {}

    def repository(self, location: str, digest: str, patch: str) -> tuple[Repository, bool]:
        """A task's repository as it lies on this machine, and whether its archive has to be fetched first."""
        if os.access(location, os.R_OK):
            return Repository("archive", location, digest, patch), False
        here = self._folder / digest
        return Repository("archive", str(here), digest, patch), not here.exists()

    async def fetched(self, work: int, location: str, digest: str) -> None:
        """The archive is here; whoever else wants it waits for the same. `TaskError` where it is not what it was."""
        if digest not in self._coming:
            self._coming[digest] = asyncio.create_task(self._fetch(work, location, digest))
        try:
            await asyncio.shield(self._coming[digest])
        except BaseException:
            self._coming.pop(digest, None)
            raise

    async def _fetch(self, work: int, location: str, digest: str) -> None:
        content = await self._questions.ask(work, 0, "archive", location)
        if (found := hashlib.sha256(content).hexdigest()) != digest:
            raise TaskError(f"the archive {location} has SHA-256 {found}, not {digest}")
        self._write(self._folder / digest, content)

    def lay_out(self, code: Mapping[str, bytes]) -> None:
        """Modules can be imported from now on, after what this machine has of the same name."""
        folder = self._folder / hashlib.sha256(pickle.dumps(sorted(code.items()))).hexdigest()
        for name, content in code.items():
            self._write(folder / name, content)
        if code and str(folder) not in sys.path:
            sys.path.append(str(folder))
            invalidate_caches()

    def _write(self, path: Path, content: bytes) -> None:
        """The file is there whole, whoever else writes it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        part.write_bytes(content)
        part.replace(path)
