"""Stand-ins on a host for parts that stay with the process that trains."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from patchgrad.contracts import Tokenizer
from patchgrad.errors import PatchgradError, StoreError
from patchgrad.values import Action, Ending, Ids, Message, Sampling, Snapshot, Turn

Encode = Callable[[Sequence[Message], Action | None], Ids]

KNOWN = 100_000
"""So many states are remembered as written: the writer is not told of them again."""


class Line(Protocol):
    """A way to the part: `ask` waits for the answer, `tell` does not."""

    def ask(self, method: str, *arguments: object) -> Awaitable[Any]: ...
    def tell(self, method: str, *arguments: object) -> None: ...


class FarTextPolicy:
    """A policy that answers elsewhere. Its ids are made here, by a function that needs nothing of it."""

    def __init__(self, line: Line, version: int, context: int, encode: Encode) -> None:
        self._line, self.version, self.context, self._encode = line, version, context, encode

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        return self._encode(messages, previous)

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        said: Action = await self._line.ask("act", session, tokens, sampling)
        return said

    def release(self, session: str) -> None:
        self._line.tell("release", session)

    def close(self) -> None:
        """It is ended where it was begun."""


class FarPolicy(FarTextPolicy):
    """One whose ids its tokenizer makes, of which there is one here."""

    def __init__(self, line: Line, version: int, context: int, tokenizer: Tokenizer) -> None:
        super().__init__(line, version, context, tokenizer.encode)
        self.tokenizer = tokenizer

    @property
    def stops(self) -> frozenset[int]:
        return self.tokenizer.eos


class FarRefusals:
    """Who is told elsewhere what is wrong with a task."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def refused(self, error: PatchgradError) -> None:
        await self._line.ask("refused", error)


class FarJournal:
    """A journal that is written elsewhere: what is awaited is kept there."""

    def __init__(self, line: Line, keeps: bool) -> None:
        self._line, self.keeps = line, keeps
        self._written: set[str] = set()

    async def turn(self, attempt: str, turn: Turn) -> None:
        await self._line.ask("turn", attempt, turn)

    async def state(self, snapshot: Snapshot) -> None:
        """Most states are those of attempts before; they are not sent again."""
        if snapshot.address not in self._written:
            await self._line.ask("state", snapshot)
            if len(self._written) >= KNOWN:
                self._written.clear()
            self._written.add(snapshot.address)

    async def ending(self, attempt: str, ending: Ending) -> None:
        await self._line.ask("ending", attempt, ending)

    async def recall(self, attempt: str, root: str) -> tuple[tuple[Turn, ...], Ending | None]:
        known: tuple[tuple[Turn, ...], Ending | None] = await self._line.ask("recall", attempt, root)
        return known

    async def snapshot(self, address: str, directory: str) -> Snapshot:
        there: Snapshot = await self._line.ask("snapshot", address, directory)
        return there

    def holds(self, address: str, attempt: str = "") -> bool:
        raise StoreError("A host writes to the journal, and does not search it: ask where the run is.")
