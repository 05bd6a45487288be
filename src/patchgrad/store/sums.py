"""What a commit covers: of each file how many bytes, and their SHA-256. What was done cannot be lost or change unseen.

{"journal/00000.jsonl": [48211, "9f2c..."], "checkpoints/rft-1/model.safetensors": [1204224, "07be..."]}
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from patchgrad.errors import StoreError

Sum = list[int | str]
"""Bytes and their digest, as JSON has it."""
PIECE = 1 << 20


class Sums:
    """Digests of files below a folder. Logs only grow, so of them what is new is read; another file is read when it is another one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: dict[Path, tuple[int, hashlib._Hash]] = {}
        self._files: dict[Path, tuple[tuple[int, ...], Sum]] = {}

    def of(self, logs: Iterable[Path], others: Iterable[Path]) -> dict[str, Sum]:
        """The sums of all of these, by their names below the folder."""
        told = {path: self._log(path, path.stat().st_size) for path in logs} | {path: self._file(path) for path in others}
        return {str(path.relative_to(self._folder)): found for path, found in told.items()}

    def check(self, sums: Mapping[str, Sum], logs: Iterable[Path]) -> None:
        """`StoreError` if one of the files is gone, or is no longer what it was; a log may have more by now."""
        growing = set(logs)
        for name, (size, digest) in sums.items():
            path = self._folder / name
            if not path.is_file():
                raise StoreError(f"{path} is gone, and the run needs it; restore it from a copy.")
            if path.stat().st_size < int(size):
                raise StoreError(f"{path} is shorter than when the run last said what is done; restore it from a copy.")
            found = self._log(path, int(size)) if path in growing else self._file(path)
            if found != [size, digest]:
                raise StoreError(f"{path} is damaged: it is not what it was when the run last said what is done; restore it from a copy.")

    def _log(self, path: Path, size: int) -> Sum:
        done, digest = self._logs.get(path, (0, hashlib.sha256()))
        if size < done:  # it was begun anew
            done, digest = 0, hashlib.sha256()
        _read(path, digest, done, size)
        self._logs[path] = (size, digest)
        return [size, digest.hexdigest()]

    def _file(self, path: Path) -> Sum:
        about = path.stat()
        same = (about.st_ino, about.st_size, about.st_mtime_ns)
        if path not in self._files or self._files[path][0] != same:
            digest = hashlib.sha256()
            _read(path, digest, 0, about.st_size)
            self._files[path] = same, [about.st_size, digest.hexdigest()]
        return self._files[path][1]


def _read(path: Path, digest: hashlib._Hash, start: int, end: int) -> None:
    with path.open("rb") as file:
        file.seek(start)
        while start < end and (piece := file.read(min(PIECE, end - start))):
            digest.update(piece)
            start += len(piece)
