"""The journal of a run's folder: turns and endings in `journal/`, the files that turns left in `states/`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path

from patchgrad.errors import StoreError
from patchgrad.store import files
from patchgrad.store.journal import Ended, Entry, Records
from patchgrad.store.states import States
from patchgrad.values import Ending, Rollout, Snapshot, Turn

WINDOW = 5.0  # seconds: turns wait so long for one another on their way to the disk


class RunJournal:
    """`contracts.Journal` on the disk. What has been awaited survives the process at once, and the machine after a `WINDOW`.

    Reading sees what another process has written so far; only a run that was opened for writing is written.
    """

    keeps = True

    def __init__(self, folder: Path, writable: Callable[[], bool]) -> None:
        self._folder, self._writable = folder, writable
        self.records, self.states = Records(folder / "journal"), States(folder / "states")
        self._synced = time.monotonic()

    async def turn(self, attempt: str, turn: Turn) -> None:
        self._append(Entry(attempt, turn))

    async def state(self, snapshot: Snapshot) -> None:
        self.states.put(snapshot)

    async def ending(self, attempt: str, ending: Ending) -> None:
        self._append(Ended(attempt, ending))

    def _append(self, record: Entry | Ended) -> None:
        if not self._writable():
            raise StoreError(f"{self._folder} was opened for reading; go on with it through Run.resume.")
        self.records.append(record)
        if time.monotonic() - self._synced >= WINDOW:
            self.sync()

    def sync(self) -> None:
        """All of it is on the disk when this returns: states before the turns that name them."""
        with files.writing(self._folder):
            self.states.sync()
            self.records.sync()
        self._synced = time.monotonic()

    async def recall(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        return self.known(attempt, root)

    def known(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        """What `recall` gives, without waiting."""
        turns, ending = self.records.attempt(attempt, root)
        there = tuple(takewhile(lambda turn: turn.state in self.states, turns))
        return there, ending if len(there) == len(turns) else None

    async def snapshot(self, address: str, directory: str) -> Snapshot:
        return self.states.get(address, directory)

    def holds(self, address: str, attempt: str = "") -> bool:
        return self.records.holds(address, attempt)

    def add(self, rollouts: Iterable[Rollout]) -> None:
        """The turns of finished attempts that are not here yet: those that a fork replays may be of another run."""
        for trajectory in (rollout.trajectory for rollout in rollouts):
            for number, turn in enumerate(trajectory.turns):
                if number >= trajectory.replayed or turn.address not in self.records:
                    self.records.append(Entry(trajectory.id, turn))
