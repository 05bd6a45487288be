"""The journal: every turn, once, in the order in which it happened, before anything else is made of it.

A line names the turn's address first, so that an index is built without reading the arrays:

    {"address": "9f2c...", "trajectory": "t1/0", "turn": {...}}

The address is a hash over the turn and its parent's address. A line that does not match its address is damage, never data.
A line survives the death of the process as soon as `append` returns; `sync` makes it survive the death of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.codec import plain, value
from patchgrad.values import Turn

PREFIX = b'{"address": "'
LIMIT = 256 << 20  # bytes after which a new file begins, so that one can be copied or deleted by itself


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn and the attempt that it belongs to (`Trajectory.id`)."""

    trajectory: str
    turn: Turn


class Journal:
    """Append-only turns. Reading sees what another process has written so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, tuple[Path, int]] = {}
        self._read: dict[Path, int] = {}
        self._last: Path | None = None

    def append(self, entry: Entry) -> str:
        """Write one turn and give its address; a turn that is there already is not written twice."""
        address = entry.turn.address
        if self._last is None:  # what stands there is read once: nobody else writes while this process holds the lock
            self._index()
            self._last = (self.files() or [self.folder / "00000.jsonl"])[-1]
        if address not in self._places:
            record = {"address": address, "trajectory": entry.trajectory, "turn": plain(entry.turn)}
            line = json.dumps(record).encode() + b"\n"
            if self._read.get(self._last, 0) >= LIMIT:
                self._last = self.folder / f"{int(self._last.stem) + 1:05d}.jsonl"
            offset = files.append(self._last, line)
            self._places[address] = (self._last, offset)
            self._read[self._last] = offset + len(line)
        return address

    def files(self) -> list[Path]:
        """The journal's files, oldest first."""
        return sorted(self.folder.glob("*.jsonl"))

    def sync(self) -> None:
        """Wait until all of it is on the disk."""
        for path in self.files()[-1:]:
            files.sync(path)

    def repair(self) -> None:
        """Cut the torn line that a killed writer left; only the one who writes may call it."""
        for path in self.files()[-1:]:
            files.cut(path, lambda line: _entry(line) is not None)

    def __contains__(self, address: str) -> bool:
        if address not in self._places:
            self._index()
        return address in self._places

    def _index(self) -> None:
        for path in self.files():
            if path.stat().st_size == self._read.get(path, 0):
                continue
            for offset, line in files.lines(path, self._read.get(path, 0)):
                self._places[line[len(PREFIX) : len(PREFIX) + 64].decode("ascii", "replace")] = (path, offset)
                self._read[path] = offset + len(line)

    def turn(self, address: str) -> Turn:
        """The turn of this address, verified."""
        if address not in self:
            raise StoreError(f"The journal in {self.folder} holds no turn {address[:12]}; a part of it was deleted.")
        path, offset = self._places[address]
        with path.open("rb") as file:
            file.seek(offset)
            entry = _entry(file.readline())
        if entry is None or entry.turn.address != address:
            raise StoreError(f"{path} is damaged at byte {offset}; restore it from a copy.")
        return entry.turn

    def entries(self) -> Iterator[Entry]:
        """Every turn with its place, verified, in the order of writing."""
        for path in self.files():
            for offset, line in files.lines(path):
                entry = _entry(line)
                if entry is None:
                    raise StoreError(f"{path} is damaged at byte {offset}; restore it from a copy.")
                yield entry


def _entry(line: bytes) -> Entry | None:
    """The line's turn, or `None` where the line is damaged."""
    try:
        record = json.loads(line)
        entry = Entry(record["trajectory"], value(Turn, record["turn"]))
    except (ValueError, KeyError, TypeError, StoreError):
        return None
    return entry if entry.turn.address == record["address"] else None
