"""Files of states: an append-only pack of records, a line and as many bytes as it says.

    blob 5891b5b522d5df08... 17 \\n <a file's content, compressed>
    state e3b0c44298fc1c14... 84 \\n <the list of path, mode, content address, compressed>

A torn tail was never written. What `append` has returned survives the death of the process, what `sync` has returned the death of the
machine; a pack copied to another host opens there.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgrad.errors import StoreError
from patchgrad.store import files

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


class Packs:
    """The packs of a folder, and how far they were read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, int] = {}

    def files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self.folder.glob("*.pack"))

    def size(self) -> int:
        """Bytes on the disk."""
        return sum(pack.stat().st_size for pack in self.files())

    def sync(self) -> None:
        """Wait until all of it is on the disk."""
        for pack in self.files()[-1:]:
            files.sync(pack)

    def append(self, records: Iterable[tuple[str, str, bytes]]) -> list[Record]:
        """Write kinds, keys and contents in one append, the contents compressed; where they stand now."""
        with files.writing(self.folder):
            if not self.folder.exists():
                self.folder.mkdir(parents=True)
                files.sync(self.folder.parent)
        pack = (self.files() or [self.folder / "00000.pack"])[-1]
        if self._read.get(pack, 0) >= LIMIT:
            with files.writing(self.folder):
                self.sync()  # from now on it is no longer the pack that a sync waits for
            pack = self.folder / f"{int(pack.stem) + 1:05d}.pack"
        data, found = bytearray(), []
        for kind, key, content in records:
            packed = zlib.compress(content, LEVEL)
            data += f"{kind} {key} {len(packed)}\n".encode()
            found.append((kind, key, len(data), len(packed)))
            data += packed
        offset = files.append(pack, bytes(data))
        self._read[pack] = offset + len(data)
        return [Record(kind, key, pack, offset + at, size) for kind, key, at, size in found]

    def unread(self) -> Iterator[Record]:
        """Every whole record that was neither read nor written here yet."""
        for pack in self.files():
            for record in whole_records(pack, self._read.get(pack, 0)):
                self._read[pack] = record.offset + record.size
                yield record

    def content(self, record: Record) -> bytes:
        """What a record holds; `StoreError` where it is damaged."""
        try:
            return zlib.decompress(self._raw(record))
        except zlib.error as error:
            raise StoreError(f"{record.pack} is damaged at byte {record.offset}; restore it from a copy.") from error

    def keep(self, records: Iterable[Record]) -> None:
        """One new pack of these records takes the place of all; it is whole before the old ones go."""
        old = self.files()

        def copy(partial: Path) -> None:
            with partial.open("wb") as file:
                for record in records:
                    content = self._raw(record)
                    file.write(f"{record.kind} {record.key} {len(content)}\n".encode() + content)

        files.put(self.folder / f"{int(old[-1].stem) + 1:05d}.pack", copy)
        for pack in old:
            pack.unlink()
        self._read = {}

    def _raw(self, record: Record) -> bytes:
        with record.pack.open("rb") as file:
            file.seek(record.offset)
            return file.read(record.size)


def whole_records(pack: Path, offset: int) -> Iterator[Record]:
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
