"""The states of sandboxes by content: every file once, however many turns, attempts and tasks hold it.

A state's record comes after the blobs that it names, so a torn tail never leaves a state without its contents (`store/packs.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.packs import Packs, Record, whole_records
from patchgrad.values import Snapshot


class States:
    """Snapshots on the disk. `put` writes what is not there yet, `get` gives back exactly what was put, verified.

    states = States(run.folder / "states")
    states.put(await sandbox.snapshot())
    sandbox = await sandboxes.open(task, states.get(turn.state))
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packs = Packs(folder)
        self._blobs: dict[str, Record] = {}
        self._states: dict[str, Record] = {}

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
        records = [("blob", key, content) for key, content in new.items()]
        self._note(self._packs.append([*records, ("state", snapshot.address, json.dumps(listed).encode())]))

    def get(self, address: str, directory: str = "/testbed") -> Snapshot:
        """The state of this address, with the shell in `directory`. `StoreError` when it is not here or damaged."""
        if address not in self:
            raise StoreError(f"{self.folder} holds no state {address[:12]}; a part of it was deleted, or the state was never stored.")
        entries: dict[str, tuple[int, bytes | None]] = {}
        for path, mode, key in self._listed(address):
            entries[path] = (mode, None if key is None else self._packs.content(self._blobs[key]))
        snapshot = Snapshot.of(entries, directory)
        if snapshot.address != address:
            raise StoreError(f"The state {address[:12]} in {self.folder} is damaged; restore the folder from a copy.")
        return snapshot

    def __contains__(self, address: str) -> bool:
        if address not in self._states:
            self._note(self._packs.unread())
        return address in self._states

    def sync(self) -> None:
        """Wait until all of it is on the disk."""
        self._packs.sync()

    def packs(self) -> list[Path]:
        """The store's files, oldest first."""
        return self._packs.files()

    def size(self) -> int:
        """Bytes on the disk."""
        return self._packs.size()

    def whole(self, done: Mapping[Path, int]) -> dict[Path, int]:
        """Of each pack the bytes before the first record that is torn or damaged, where so many are known to be whole already."""
        blobs = set[str]()
        return files.up_to((pack, _sound(self._packs, pack, done.get(pack, 0), blobs)) for pack in self.packs())

    def sweep(self, reachable: Iterable[str]) -> int:
        """Forget every state that is not named, and the contents that no other one has; gives the bytes that became free.

        The new pack is whole before the old ones go, and only the one who writes may call it; a run commits next (`Run.save_state`), since
        the packs that it last said to be done are no more.
        """
        self._note(self._packs.unread())
        kept = [address for address in dict.fromkeys(reachable) if address in self._states]
        blobs = dict.fromkeys(key for address in kept for _, _, key in self._listed(address) if key is not None)
        before = self.size()
        if not self.packs():
            return 0
        self._packs.keep([*(self._blobs[key] for key in blobs), *(self._states[address] for address in kept)])
        self._blobs, self._states = {}, {}
        return before - self.size()

    def _note(self, records: Iterable[Record]) -> None:
        for record in records:
            (self._blobs if record.kind == "blob" else self._states)[record.key] = record

    def _listed(self, address: str) -> list[tuple[str, int, str | None]]:
        return [(path, mode, key) for path, mode, key in json.loads(self._packs.content(self._states[address]))]


def _sound(packs: Packs, pack: Path, done: int, blobs: set[str]) -> int:
    """The bytes of a pack before its first record that is not right; the blobs before it are noted in `blobs`."""
    end = 0
    for record in whole_records(pack, 0):
        if record.offset > done and not _right(packs, record, blobs):
            break
        if record.kind == "blob":
            blobs.add(record.key)
        end = record.offset + record.size
    return end


def _right(packs: Packs, record: Record, blobs: Collection[str]) -> bool:
    """Is a blob what its name says, and a state a list of blobs that stand before it?"""
    try:
        content = packs.content(record)
        if record.kind == "blob":
            return hashlib.sha256(content).hexdigest() == record.key
        return all(key is None or key in blobs for _, _, key in json.loads(content))
    except (StoreError, ValueError, TypeError):
        return False
