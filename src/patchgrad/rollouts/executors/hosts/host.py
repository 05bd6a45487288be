"""A host: calls that the process that trains has sent, beside the parts that this machine has of its own.

It knows nothing of how messages travel. Whoever holds it hands over what has come (`take`) and gives it a way back (`post`).
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from patchgrad.contracts import Sandboxes
from patchgrad.errors import SandboxFault
from patchgrad.links import Message
from patchgrad.rollouts.executors.hosts.asking import Line, Questions
from patchgrad.rollouts.executors.hosts.carrying import Mark, fits, plain, unpacked
from patchgrad.rollouts.executors.hosts.files import Files
from patchgrad.rollouts.executors.hosts.messages import Done, Leave, Left, Reply, Start, Work
from patchgrad.rollouts.executors.hosts.parts import FarJournal, FarPolicy, FarRefusals, FarTextPolicy

CACHED = f"{__name__}:cached"
"""A guest of a link (`links.Guest`): a host."""

Function = Callable[[Any, Any], Coroutine[Any, Any, Any]]


@dataclass(slots=True)
class _Work:
    """A function with what its calls share, which is unpacked for the first of them, and the calls."""

    message: Work
    calls: set[asyncio.Task[None]] = field(default_factory=set)
    opened: tuple[Function, Any] | None = None


class Host:
    """Runs what it is sent, and asks for what stays elsewhere. Archives of tasks and modules of users lie in `folder`."""

    def __init__(self, post: Callable[[Message], None], folder: Path) -> None:
        self._post = post
        self._questions = Questions(post)
        self._files = Files(folder, self._questions)
        self._works: dict[int, _Work] = {}
        self._kept: dict[int, Any] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def take(self, message: Message) -> None:
        """What has come from the process that trains."""
        match message:
            case Work():
                self._works[message.work] = _Work(message)
            case Start():
                work = self._works[message.work]
                call = asyncio.create_task(self._called(work, message))
                work.calls.add(call)
                call.add_done_callback(work.calls.discard)
            case Leave():
                leaving = asyncio.create_task(self._left(message.work))
                self._leaving.add(leaving)
                leaving.add_done_callback(self._leaving.discard)
            case Reply():
                self._questions.answered(message)

    async def close(self) -> None:
        """Nothing of it goes on, and its sandboxes are closed."""
        await asyncio.gather(*(self._left(number) for number in list(self._works)))
        for part in self._kept.values():
            if fits(type(part), Sandboxes):
                await part.close()
        self._kept.clear()

    def _opened(self, work: _Work) -> tuple[Function, Any]:
        """The function, and what its calls share."""
        if work.opened is None:
            self._files.lay_out(work.message.code)
            module, _, name = work.message.function.partition(":")
            shared = unpacked(work.message.shared, lambda mark: self._made(work.message.work, mark, []))
            work.opened = getattr(import_module(module), name), shared
        return work.opened

    async def _called(self, work: _Work, start: Start) -> None:
        """One call, whose result or exception is told."""
        wanted: list[tuple[str, str]] = []
        try:
            function, shared = self._opened(work)
            item = unpacked(start.content, lambda mark: self._made(start.work, mark, wanted))
            for location, digest in wanted:
                await self._files.fetched(start.work, location, digest)
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

    def _made(self, work: int, mark: Mark, wanted: list[tuple[str, str]]) -> object:
        """What stands for a part on this host; an archive that is not here yet is `wanted`."""
        match mark:
            case ("policy", number, version, context, tokenizer):
                own = unpacked(tokenizer, lambda inner: self._made(work, inner, wanted))
                return FarPolicy(Line(self._questions, work, number), version, context, own)
            case ("text", number, version, context, encode):
                return FarTextPolicy(Line(self._questions, work, number), version, context, pickle.loads(encode))
            case ("journal", number, keeps):
                return FarJournal(Line(self._questions, work, number), keeps)
            case ("refusals", number):
                return FarRefusals(Line(self._questions, work, number))
            case ("kept", number, content):
                if number not in self._kept:
                    self._kept[number] = unpacked(content, lambda inner: self._made(work, inner, wanted))
                return self._kept[number]
            case ("archive", location, digest, patch):
                found, missing = self._files.repository(location, digest, patch)
                if missing:
                    wanted.append((location, digest))
                return found
        raise pickle.UnpicklingError(f"a part was marked as {mark[0]!r}, which this host does not know")


def _packed(error: Exception) -> bytes:
    """The exception; one that cannot travel is told as a fault, in its words."""
    try:
        content = plain(error)
        pickle.loads(content)
    except Exception:
        return plain(SandboxFault(f"{type(error).__name__}: {error}"))
    return content


def cached(post: Callable[[Message], None], folder: str = "") -> Host:
    """A host whose files lie in a folder, or where caches of this user are."""
    return Host(post, Path(folder) if folder else Path.home() / ".cache" / "patchgrad" / "archives")
