"""The journal: every turn and every ending, once, in the order in which they happened, before anything else is made of them.

A line names the address first, so that an index is built without reading the arrays:

    {"address": "9f2c...", "trajectory": "t1/0", "turn": {...}}
    {"address": "07be...", "trajectory": "t1/0", "ending": {...}}

The address is a hash over the record and its parent's address: an attempt is a chain from its beginning, which is no record, to its ending.
Where an attempt went on twice from one turn, since a sandbox broke or a process was killed, the later record is the one that counts.
A line that does not match its address is damage, never data. A line survives the death of the process as soon as `append` returns;
`sync` makes it survive the death of the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.codec import plain, value
from patchgrad.store.journal_index import Index
from patchgrad.values import Ending, Turn, chain

LIMIT = 256 << 20  # bytes after which a new file begins, so that one can be copied or deleted by itself


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn and the attempt that it belongs to (`Trajectory.id`)."""

    trajectory: str
    turn: Turn

    @property
    def address(self) -> str:
        return self.turn.address

    @property
    def body(self) -> dict[str, Any]:
        return {"turn": plain(self.turn)}


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    trajectory: str
    ending: Ending

    @property
    def address(self) -> str:
        return self.ending.address

    @property
    def body(self) -> dict[str, Any]:
        return {"ending": plain(self.ending)}


class Records:
    """Append-only records. Reading sees what another process has written so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = Index()
        self._last: Path | None = None

    def append(self, entry: Entry | Ended) -> str:
        """Write one record and give its address; one that its attempt has already is not written twice.

        Two forks that do the same have turns of one address, and each has its own.
        """
        address = entry.address
        if self._last is None:  # what stands there is read once: nobody else writes while this process holds the lock
            self._index.update(self.files())
            self._last = (self.files() or [self.folder / "00000.jsonl"])[-1]
        if address not in self._index.of(entry.trajectory):
            record = {"address": address, "trajectory": entry.trajectory, **entry.body}
            line = json.dumps(record).encode() + b"\n"
            if self._index.read(self._last) >= LIMIT:
                with files.writing(self.folder):
                    self.sync()  # from now on it is no longer the file that a sync waits for
                self._last = self.folder / f"{int(self._last.stem) + 1:05d}.jsonl"
            offset = files.append(self._last, line)
            self._index.note(address, entry.trajectory, (self._last, offset), len(line))
        return address

    def files(self) -> list[Path]:
        """The journal's files, oldest first."""
        return sorted(self.folder.glob("*.jsonl"))

    def sync(self) -> None:
        """Wait until all of it is on the disk."""
        for path in self.files()[-1:]:
            files.sync(path)

    def whole(self, done: Mapping[Path, int]) -> dict[Path, int]:
        """Of each file the bytes before the first line that is torn or damaged, where so many are known to be whole already.

        A machine that lost its power may have kept a line and not the one before it.
        """
        return files.up_to((path, files.whole(path, done.get(path, 0), lambda line: _entry(line) is not None)) for path in self.files())

    def __contains__(self, address: str) -> bool:
        if address not in self._index.places:
            self._index.update(self.files())
        return address in self._index.places

    def holds(self, address: str, attempt: str = "") -> bool:
        """Does a record of this address stand here, as one of this attempt where one is named?"""
        return address in self and (not attempt or address in self._index.of(attempt))

    def turn(self, address: str) -> Turn:
        """The turn of this address, verified."""
        return self.entry(address).turn

    def entry(self, address: str) -> Entry:
        """The same with the attempt that it belongs to."""
        if address not in self:
            raise StoreError(f"The journal in {self.folder} holds no turn {address[:12]}; a part of it was deleted.")
        entry = record_at(*self._index.places[address], address)
        if not isinstance(entry, Entry):
            raise StoreError(f"{address[:12]} is the ending of an attempt, and no turn.")
        return entry

    def attempt(self, trajectory: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        """The turns of an attempt that begins at this root (`values.root_address`), as far as they go, and its ending where it has one."""
        self._index.update(self.files())
        found = (record_at(*place, address) for address, place in self._index.of(trajectory).items())
        return chain((one.turn if isinstance(one, Entry) else one.ending for one in found), root)

    def entries(self) -> Iterator[Entry]:
        """Every turn with its attempt, verified, in the order of writing."""
        return (record for record in self.records() if isinstance(record, Entry))

    def records(self) -> Iterator[Entry | Ended]:
        """Every turn and every ending, verified, in the order of writing."""
        for path in self.files():
            for offset, line in files.lines(path):
                entry = _entry(line)
                if entry is None:
                    raise StoreError(f"{path} is damaged at byte {offset}; restore it from a copy.")
                yield entry


def record_at(path: Path, offset: int, address: str = "") -> Entry | Ended:
    """The record whose line begins at this byte of a file, verified: it is the one of this address, where one is given."""
    with path.open("rb") as file:
        file.seek(offset)
        entry = _entry(file.readline())
    if entry is None or address not in ("", entry.address):
        raise StoreError(f"{path} is damaged at byte {offset}; restore it from a copy.")
    return entry


def _entry(line: bytes) -> Entry | Ended | None:
    """The line's record, or `None` where the line is damaged."""
    try:
        record = json.loads(line)
        of = record["trajectory"]
        entry = Entry(of, value(Turn, record["turn"])) if "turn" in record else Ended(of, value(Ending, record["ending"]))
        return entry if entry.address == record["address"] else None
    except (ValueError, KeyError, TypeError, StoreError):
        return None
