"""A journal over another one, of which a test replaces single members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from patchgrad.contracts import Journal
from patchgrad.values import Ending, Snapshot, Turn

Recalled = tuple[tuple[Turn, ...], Ending | None]


class Over:
    """`Over(journal, turn=other)` is the journal but for what it does with turns."""

    keeps = True

    def __init__(
        self,
        journal: Journal,
        *,
        turn: Callable[[str, Turn], Awaitable[None]] | None = None,
        ending: Callable[[str, Ending], Awaitable[None]] | None = None,
        recall: Callable[[str, str], Awaitable[Recalled]] | None = None,
        snapshot: Callable[[str, str], Awaitable[Snapshot]] | None = None,
    ) -> None:
        self._journal, self._turn, self._ending = journal, turn or journal.turn, ending or journal.ending
        self._recall, self._snapshot = recall or journal.recall, snapshot or journal.snapshot

    async def turn(self, attempt: str, turn: Turn) -> None:
        await self._turn(attempt, turn)

    async def ending(self, attempt: str, ending: Ending) -> None:
        await self._ending(attempt, ending)

    async def recall(self, attempt: str, root: str) -> Recalled:
        return await self._recall(attempt, root)

    async def snapshot(self, address: str, directory: str) -> Snapshot:
        return await self._snapshot(address, directory)

    async def state(self, snapshot: Snapshot) -> None:
        await self._journal.state(snapshot)

    def holds(self, address: str, attempt: str = "") -> bool:
        return self._journal.holds(address, attempt)


async def forgotten(attempt: str, fact: Turn | Ending) -> None:
    """Nothing is kept."""


async def unknown(attempt: str, root: str) -> Recalled:
    """Nothing is known."""
    return (), None
