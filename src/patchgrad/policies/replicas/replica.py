"""One replica, from the side that asks it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchgrad.errors import HostLost
from patchgrad.links import Link, Notice
from patchgrad.policies.replicas.health import Standing
from patchgrad.policies.replicas.messages import Act, Answer, Drop, Load, Open, Piece, Question, Release, Want
from patchgrad.values import Action


class Replica:
    """A link, the questions that are open on it, and how it stands. `changed` is called when that, or what is under way, is another.

    It is given files below `home`, where weights are published, and no others.
    """

    def __init__(self, link: Link, home: Path, changed: Callable[[], None]) -> None:
        self._link, self._home, self._changed = link, home, changed
        self.standing = Standing()
        self.acting = 0
        self.opened = False
        self.lost = ""
        self.loading = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[Any]] = {}

    @property
    def name(self) -> str:
        return self._link.name

    def move(self, state: Any) -> None:
        """Another state (`Standing.move`), which is told."""
        self.standing.move(state)
        self._changed()

    async def listen(self) -> str:
        """Hears it until it is lost; why."""
        try:
            while True:
                match await self._link.received():
                    case Answer(number, value, failed):
                        self._hear(number, value, failed)
                    case Want() as want:
                        self._link.post(Piece(want.number, await asyncio.to_thread(self._piece, want)))
                    case Notice(why):  # what is under way there is drawn elsewhere, with the same seeds
                        self.lose(f"{self.name} leaves: its machine is about to end ({why})")
                        return self.lost
        except HostLost as lost:
            self.lose(str(lost))
        return self.lost

    def _hear(self, number: int, value: Any, failed: bool) -> None:
        answer = self._open.pop(number, None)
        if answer is None or answer.done():
            return
        if failed:
            answer.set_exception(value)
        else:
            answer.set_result(value)

    async def ask(self, content: Open | Act | Load) -> Any:
        """The answer, or its exception; `HostLost` where the replica is gone, or goes."""
        if self.lost:
            raise HostLost(self.lost)
        number = next(self._numbers)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        self._link.post(Question(number, content))
        try:
            return await answer
        except asyncio.CancelledError:
            self._link.post(Drop(number))
            raise
        finally:
            self._open.pop(number, None)

    async def act(self, question: Act) -> Action:
        """One action; it counts as under way until it is there."""
        self.acting += 1
        try:
            action: Action = await self.ask(question)
            return action
        finally:
            self.acting -= 1
            self._changed()

    def release(self, session: str) -> None:
        """A session is over."""
        self._link.post(Release(session))

    async def close(self) -> None:
        """It ends, with what it has opened; who waits for an answer is told."""
        self._end("it was closed")
        await self._link.close()

    def lose(self, why: str) -> None:
        """It is gone, and is ended where it is not; who waits for an answer is told why."""
        if not self.lost:
            self._link.kill()
            self._end(why)

    def _end(self, why: str) -> None:
        self.lost = why
        self.move("dead")
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(HostLost(why))

    def _piece(self, want: Want) -> bytes:
        path = Path(want.path)
        if path.parent.parent != self._home:
            return b""
        try:
            with path.open("rb") as file:
                file.seek(want.start)
                return file.read(want.length)
        except OSError:
            return b""
