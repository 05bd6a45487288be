"""Journals that need no disk: one that keeps nothing, one that keeps attempts as long as the process lives, and one over two others."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from patchgrad.contracts import Journal
from patchgrad.errors import StoreError
from patchgrad.values import Ending, Snapshot, Turn, chain


class NullJournal:
    """Keeps nothing: an attempt that breaks begins again, and nothing that was sampled can be trained on."""

    keeps = False

    async def turn(self, attempt: str, turn: Turn) -> None:
        """Nothing is kept."""

    async def state(self, snapshot: Snapshot) -> None:
        """Nothing is kept."""

    async def ending(self, attempt: str, ending: Ending) -> None:
        """Nothing is kept."""

    async def recall(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        return (), None

    async def snapshot(self, address: str, directory: str) -> Snapshot:
        raise StoreError(f"There is no state {address[:12]}: nothing was kept.")

    def holds(self, address: str, attempt: str = "") -> bool:
        return False


class MemoryJournal:
    """Keeps everything in this process. An attempt whose sandbox breaks goes on in another one."""

    keeps = True

    def __init__(self) -> None:
        self._links: dict[str, dict[str, Turn | Ending]] = {}
        self._states: dict[str, Snapshot] = {}

    async def turn(self, attempt: str, turn: Turn) -> None:
        self._links.setdefault(attempt, {})[turn.address] = turn

    async def state(self, snapshot: Snapshot) -> None:
        self._states[snapshot.address] = snapshot

    async def ending(self, attempt: str, ending: Ending) -> None:
        self._links.setdefault(attempt, {})[ending.address] = ending

    async def recall(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        turns, ending = chain(self._links.get(attempt, {}).values(), root)
        there = tuple(takewhile(lambda turn: turn.state in self._states, turns))
        return there, ending if len(there) == len(turns) else None

    async def snapshot(self, address: str, directory: str) -> Snapshot:
        if address not in self._states:
            raise StoreError(f"There is no state {address[:12]}: it was never kept.")
        return replace(self._states[address], directory=directory)

    def holds(self, address: str, attempt: str = "") -> bool:
        of = [self._links.get(attempt, {})] if attempt else self._links.values()
        return any(address in links for links in of)


class LayeredJournal:
    """Writes to one journal and reads states from another one too: attempts that go on after turns of another run."""

    def __init__(self, own: Journal, source: Journal) -> None:
        self._own, self._source = own, source

    @property
    def keeps(self) -> bool:
        return self._own.keeps

    async def turn(self, attempt: str, turn: Turn) -> None:
        await self._own.turn(attempt, turn)

    async def state(self, snapshot: Snapshot) -> None:
        await self._own.state(snapshot)

    async def ending(self, attempt: str, ending: Ending) -> None:
        await self._own.ending(attempt, ending)

    async def recall(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        return await self._own.recall(attempt, root)

    async def snapshot(self, address: str, directory: str) -> Snapshot:
        try:
            return await self._own.snapshot(address, directory)
        except StoreError:
            return await self._source.snapshot(address, directory)

    def holds(self, address: str, attempt: str = "") -> bool:
        return self._own.holds(address, attempt) or self._source.holds(address, attempt)
