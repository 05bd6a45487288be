"""A host: calls that the process that trains has sent, beside the parts that this machine has of its own.

It knows nothing of how messages travel. Whoever holds it hands over what has come (`take`) and gives it a way back (`post`).
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import pickle
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from patchgrad.contracts import Sandboxes
from patchgrad.errors import SandboxFault, TaskError
from patchgrad.rollouts.executors.hosts.carrying import Mark, fits, plain, unpacked
from patchgrad.rollouts.executors.hosts.messages import Ask, Beat, Done, Drop, Leave, Left, Message, Reply, Start, Work
from patchgrad.rollouts.executors.hosts.parts import FarJournal, FarPolicy
from patchgrad.values import Repository

BEAT = 2.0
"""Seconds between two signs of life."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Work:
    """A function with what its calls share, which is unpacked for the first of them, and the calls."""

    message: Work
    calls: set[asyncio.Task[None]] = field(default_factory=set)
    opened: tuple[Callable[[Any, Any], Coroutine[Any, Any, Any]], Any] | None = None


class Host:
    """Runs what it is sent, and asks for what stays elsewhere. Archives of tasks lie in `folder`."""

    def __init__(self, post: Callable[[Message], None], folder: Path) -> None:
        self._post, self._folder = post, folder
        self._works: dict[int, _Work] = {}
        self._kept: dict[int, Any] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def take(self, message: Message) -> None:
        """What has come from the process that trains."""
        match message:
            case Work():
                self._works[message.work] = _Work(message)
            case Start():
                work = self._works[message.work]
                task = asyncio.create_task(self._called(work, message))
                work.calls.add(task)
                task.add_done_callback(work.calls.discard)
            case Leave():
                task = asyncio.create_task(self._left(message.work))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
            case Reply():
                self._replied(message)

    async def beat(self) -> None:
        """Says every few seconds that this host is alive."""
        while True:
            self._post(Beat(time.process_time()))
            await asyncio.sleep(BEAT)

    async def close(self) -> None:
        """Nothing of it goes on, and its sandboxes are closed."""
        await asyncio.gather(*(self._left(number) for number in list(self._works)))
        for part in self._kept.values():
            if fits(type(part), Sandboxes):
                await part.close()
        self._kept.clear()

    def _opened(self, work: _Work) -> tuple[Callable[[Any, Any], Coroutine[Any, Any, Any]], Any]:
        """The function, and what its calls share."""
        if work.opened is None:
            module, _, name = work.message.function.partition(":")
            shared = unpacked(work.message.shared, lambda mark: self._made(work.message.work, mark))
            work.opened = getattr(import_module(module), name), shared
        return work.opened

    async def _called(self, work: _Work, start: Start) -> None:
        """One call, whose result or exception is told."""
        wanted: list[tuple[str, str]] = []
        try:
            function, shared = self._opened(work)
            item = unpacked(start.content, lambda mark: self._made(start.work, mark, wanted))
            for location, digest in wanted:
                await self._fetched(start.work, location, digest)
            done = Done(start.work, start.item, plain(await function(shared, item)), False)
        except Exception as error:
            done = Done(start.work, start.item, _packed(error), True)
        self._post(done)

    async def _left(self, number: int) -> None:
        work = self._works.pop(number, None)
        calls = list(work.calls) if work else []
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        self._post(Left(number))

    def _made(self, work: int, mark: Mark, wanted: list[tuple[str, str]] | None = None) -> object:
        """What stands for a part on this host."""
        match mark:
            case ("policy", number, version, context, tokenizer):
                made = unpacked(tokenizer, lambda inner: self._made(work, inner, wanted))
                return FarPolicy(_Line(self, work, number), version, context, made)
            case ("journal", number, keeps):
                return FarJournal(_Line(self, work, number), keeps)
            case ("kept", number, content):
                if number not in self._kept:
                    self._kept[number] = unpacked(content, lambda inner: self._made(work, inner, wanted))
                return self._kept[number]
            case ("archive", location, digest, patch):
                return self._repository(location, digest, patch, wanted)
        raise pickle.UnpicklingError(f"a part was marked as {mark[0]!r}, which this host does not know: is its patchgrad another version?")

    def _repository(self, location: str, digest: str, patch: str, wanted: list[tuple[str, str]] | None) -> Repository:
        if os.access(location, os.R_OK):
            return Repository("archive", location, digest, patch)
        here = self._folder / digest
        if wanted is not None and not here.exists():
            wanted.append((location, digest))
        return Repository("archive", str(here), digest, patch)

    async def _fetched(self, work: int, location: str, digest: str) -> None:
        """The archive is here, asked for once."""
        if digest not in self._fetching:
            self._fetching[digest] = asyncio.create_task(self._fetch(work, location, digest))
        try:
            await asyncio.shield(self._fetching[digest])
        except Exception:
            self._fetching.pop(digest, None)
            raise

    async def _fetch(self, work: int, location: str, digest: str) -> None:
        content = await self.ask(work, 0, "archive", location)
        if (found := hashlib.sha256(content).hexdigest()) != digest:
            raise TaskError(f"the archive {location} has SHA-256 {found}, not {digest}")
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"{digest}.{os.getpid()}"
        part.write_bytes(content)
        part.rename(self._folder / digest)

    async def ask(self, work: int, part: int, method: str, *arguments: object) -> Any:
        """The answer of a part that stays; whoever stops waiting has it dropped there."""
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self._post(Ask(number, work, part, method, plain(arguments)))
        try:
            return await answer
        except asyncio.CancelledError:
            self._post(Drop(number))
            raise
        finally:
            self._asked.pop(number, None)

    def tell(self, work: int, part: int, method: str, *arguments: object) -> None:
        """The same, where nobody waits for an answer."""
        self._post(Ask(0, work, part, method, plain(arguments)))

    def _replied(self, reply: Reply) -> None:
        answer = self._asked.get(reply.number)
        if answer is None or answer.done():
            return
        value = pickle.loads(reply.value)  # from the process that trains
        if reply.failed:
            answer.set_exception(value)
        else:
            answer.set_result(value)


@dataclass(frozen=True, slots=True)
class _Line:
    """A way from a stand-in to its part."""

    host: Host
    work: int
    part: int

    async def ask(self, method: str, *arguments: object) -> Any:
        return await self.host.ask(self.work, self.part, method, *arguments)

    def tell(self, method: str, *arguments: object) -> None:
        self.host.tell(self.work, self.part, method, *arguments)


def _packed(error: Exception) -> bytes:
    """The exception; one that cannot travel is told as a fault in its words."""
    try:
        content = plain(error)
        pickle.loads(content)
    except Exception:
        log.warning("an exception could not be sent: %r", error)
        return plain(SandboxFault(f"{type(error).__name__}: {error}"))
    return content
