"""The states of sandboxes by content: every file once, however many turns, attempts and tasks hold it.

A pack is an append-only file of records; a record is a line and as many bytes as it says:

    blob 5891b5b522d5df08... 17 \\n <a file's content, compressed>
    state e3b0c44298fc1c14... 84 \\n <the list of path, mode, content address, compressed>

A state's record comes after the blobs that it names, so a torn tail never leaves a state without its contents. What `put` has returned
survives the death of the process, what `sync` has returned the death of the machine; a pack copied to another host opens there.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.values import Snapshot

LIMIT = 256 << 20  # bytes after which a new pack begins
LEVEL = 1  # the fastest: on text it takes two thirds off, and higher ones take time from the run


@dataclass(frozen=True, slots=True)
class Record:
    """Where one blob or state stands: `size` bytes of `pack` from `offset` on."""

    kind: str
    key: str
    pack: Path
    offset: int
    size: int


class States:
    """Snapshots on the disk. `put` writes what is not there yet, `get` gives back exactly what was put, verified.

    states = States(run.folder / "states")
    states.put(await sandbox.snapshot())
    sandbox = await sandboxes.open(task, states.get(turn.state))
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs: dict[str, Record] = {}
        self._states: dict[str, Record] = {}
        self._read: dict[Path, int] = {}

    def put(self, snapshot: Snapshot) -> None:
        """Write a state, one append for all that is new of it; a state that is there costs a look into an index."""
        if snapshot.address in self:
            return
        listed, new = [], dict[str, bytes]()
        for path, (mode, content) in sorted(snapshot.entries.items()):
            key = None if content is None else hashlib.sha256(content).hexdigest()
            listed.append([path, mode, key])
            if content is not None and key is not None and key not in self._blobs:
                new[key] = content
        records = [("blob", key, zlib.compress(content, LEVEL)) for key, content in new.items()]
        records.append(("state", snapshot.address, zlib.compress(json.dumps(listed).encode(), LEVEL)))
        self._append(records)

    def _append(self, records: Iterable[tuple[str, str, bytes]]) -> None:
        with files.writing(self.folder):
            if not self.folder.exists():
                self.folder.mkdir(parents=True)
                files.sync(self.folder.parent)
        pack = (self.packs() or [self.folder / "00000.pack"])[-1]
        if self._read.get(pack, 0) >= LIMIT:
            with files.writing(self.folder):
                self.sync()  # from now on it is no longer the pack that a sync waits for
            pack = self.folder / f"{int(pack.stem) + 1:05d}.pack"
        data, found = bytearray(), []
        for kind, key, content in records:
            data += f"{kind} {key} {len(content)}\n".encode()
            found.append((kind, key, len(data), len(content)))
            data += content
        offset = files.append(pack, bytes(data))
        for kind, key, at, size in found:
            self._note(Record(kind, key, pack, offset + at, size))
        self._read[pack] = offset + len(data)

    def get(self, address: str, directory: str = "/testbed") -> Snapshot:
        """The state of this address, with the shell in `directory`. `StoreError` when it is not here or damaged."""
        if address not in self:
            raise StoreError(f"{self.folder} holds no state {address[:12]}; a part of it was deleted, or the state was never stored.")
        entries: dict[str, tuple[int, bytes | None]] = {}
        for path, mode, key in self._listed(address):
            entries[path] = (mode, None if key is None else self._content(self._blobs[key]))
        snapshot = Snapshot.of(entries, directory)
        if snapshot.address != address:
            raise StoreError(f"The state {address[:12]} in {self.folder} is damaged; restore the folder from a copy.")
        return snapshot

    def __contains__(self, address: str) -> bool:
        if address not in self._states:
            self._index()
        return address in self._states

    def sync(self) -> None:
        """Wait until all of it is on the disk."""
        for pack in self.packs()[-1:]:
            files.sync(pack)

    def packs(self) -> list[Path]:
        """The store's files, oldest first."""
        return sorted(self.folder.glob("*.pack"))

    def size(self) -> int:
        """Bytes on the disk."""
        return sum(pack.stat().st_size for pack in self.packs())

    def whole(self, done: Mapping[Path, int]) -> dict[Path, int]:
        """Of each pack the bytes before the first record that is torn or damaged, where so many are known to be whole already."""
        blobs = set[str]()
        return files.up_to((pack, self._sound(pack, done.get(pack, 0), blobs)) for pack in self.packs())

    def _sound(self, pack: Path, done: int, blobs: set[str]) -> int:
        end = 0
        for record in _records(pack, 0):
            if record.offset > done and not self._right(record, blobs):
                break
            if record.kind == "blob":
                blobs.add(record.key)
            end = record.offset + record.size
        return end

    def _right(self, record: Record, blobs: Collection[str]) -> bool:
        """Is a blob what its name says, and a state a list of blobs that stand before it?"""
        try:
            content = self._content(record)
            if record.kind == "blob":
                return hashlib.sha256(content).hexdigest() == record.key
            return all(key is None or key in blobs for _, _, key in json.loads(content))
        except (StoreError, ValueError, TypeError):
            return False

    def sweep(self, reachable: Iterable[str]) -> int:
        """Forget every state that is not named, and the contents that no other one has; gives the bytes that became free.

        The new pack is whole before the old ones go, and only the one who writes may call it; a run commits next (`Run.save_state`), since
        the packs that it last said to be done are no more.
        """
        self._index()
        kept = [address for address in dict.fromkeys(reachable) if address in self._states]
        blobs = dict.fromkeys(key for address in kept for _, _, key in self._listed(address) if key is not None)
        old, before = self.packs(), self.size()
        if not old:
            return 0
        path = self.folder / f"{int(old[-1].stem) + 1:05d}.pack"
        sources = [self._blobs[key] for key in blobs] + [self._states[address] for address in kept]

        def copy(partial: Path) -> None:
            with partial.open("wb") as file:
                for record in sources:
                    content = self._raw(record)
                    file.write(f"{record.kind} {record.key} {len(content)}\n".encode() + content)

        files.put(path, copy)
        for pack in old:
            pack.unlink()
        self._blobs, self._states, self._read = {}, {}, {}
        return before - self.size()

    # --- reading -------------------------------------------------------------------------------

    def _index(self) -> None:
        for pack in self.packs():
            for record in _records(pack, self._read.get(pack, 0)):
                self._note(record)
                self._read[pack] = record.offset + record.size

    def _note(self, record: Record) -> None:
        (self._blobs if record.kind == "blob" else self._states)[record.key] = record

    def _listed(self, address: str) -> list[tuple[str, int, str | None]]:
        return [(path, mode, key) for path, mode, key in json.loads(self._content(self._states[address]))]

    def _content(self, record: Record) -> bytes:
        try:
            return zlib.decompress(self._raw(record))
        except zlib.error as error:
            raise StoreError(f"{record.pack} is damaged at byte {record.offset}; restore it from a copy.") from error

    def _raw(self, record: Record) -> bytes:
        with record.pack.open("rb") as file:
            file.seek(record.offset)
            return file.read(record.size)


def _records(pack: Path, offset: int) -> Iterator[Record]:
    """Every whole record from `offset` on; where the file ends within one, it was never written."""
    end = pack.stat().st_size
    with pack.open("rb") as file:
        file.seek(offset)
        while line := file.readline(256):
            kind, _, rest = line.decode("ascii", "replace").partition(" ")
            key, _, size = rest.partition(" ")
            if kind not in ("blob", "state") or not size.endswith("\n") or not size[:-1].isdigit():
                return
            at = offset + len(line)
            if at + int(size) > end:
                return
            yield Record(kind, key, pack, at, int(size))
            offset = at + int(size)
            file.seek(offset)
