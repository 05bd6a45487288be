"""The far end of a replica: a policy in a process of its own, and the weights that it is sent."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

from patchgrad.contracts import TrainablePolicy
from patchgrad.errors import PatchgradError, PolicyFault
from patchgrad.links import Message
from patchgrad.links.kept import KeptFolder
from patchgrad.policies.publications import MANIFEST, Published
from patchgrad.policies.replicas.messages import Act, Answer, Drop, Load, Open, Piece, Question, Release, Want, Where

FAR = f"{__name__}:guest"
"""A guest of a link (`links.Guest`)."""

PIECE = 16 << 20
"""Bytes of a file that travel together."""


def guest(post: Callable[[Message], None]) -> Far:
    """A replica without a policy yet."""
    return Far(post)


class Far:
    """Answers questions, several at a time; one thread makes the policy and loads weights."""

    def __init__(self, post: Callable[[Message], None]) -> None:
        self._post = post
        self._policy: TrainablePolicy | None = None
        self._home: KeptFolder | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._wanted: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = itertools.count(1)

    def take(self, message: Message) -> None:
        match message:
            case Question(number, content):
                task = self._tasks[number] = asyncio.create_task(self._answer(number, content))
                task.add_done_callback(lambda _: self._tasks.pop(number, None))
            case Drop(number) if number in self._tasks:
                self._tasks[number].cancel()
            case Release(session) if self._policy is not None:
                self._policy.release(session)
            case Piece(number, content) if number in self._wanted:
                self._wanted.pop(number).set_result(content)

    async def close(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._policy is not None:
            await asyncio.to_thread(self._policy.close)
        if self._home is not None:
            self._home.close()

    async def _answer(self, number: int, content: Open | Act | Load) -> None:
        try:
            self._post(Answer(number, await self._asked(content)))
        except PatchgradError as error:
            self._post(Answer(number, error, failed=True))
        except Exception as error:  # of a library, of a kind that the other end may not have
            self._post(Answer(number, PolicyFault(f"{type(error).__name__}: {error}"), failed=True))

    def _asked(self, content: Open | Act | Load) -> Coroutine[Any, Any, Any]:
        match content:
            case Act(session, tokens, sampling):
                return self._there().act(session, tokens, sampling)
            case Load(weights):
                return self._loaded(weights)
            case Open():
                return self._opened(content)

    def _there(self) -> TrainablePolicy:
        if self._policy is None:
            raise PolicyFault("the replica was not opened")
        return self._policy

    async def _opened(self, told: Open) -> str:
        module, _, name = told.maker.partition(":")
        make = getattr(import_module(module), name)
        published = await self._found(told.weights)
        self._policy = await asyncio.to_thread(make, published, **told.options)
        return published.digest

    async def _loaded(self, weights: Where) -> str:
        published = await self._found(weights)
        await asyncio.to_thread(self._there().load, published, published.version)
        return published.digest

    async def _found(self, where: Where) -> Published:
        """A publication that this machine sees, or a copy of it. The last copy stays: a server may have to begin anew with it."""
        folder = Path(where.folder)
        if not (folder / MANIFEST).is_file():
            folder = await self._copied(where)
        published = Published(folder)
        if published.digest != where.digest:
            raise PolicyFault(f"{folder} is another publication than the one that was announced: its digest differs")
        return published

    async def _copied(self, where: Where) -> Path:
        if self._home is None:
            self._home = KeptFolder("patchgrad-weights-", sum(where.files.values()))
        new = Path(tempfile.mkdtemp(dir=self._home.path))
        for name, size in where.files.items():
            with (new / name).open("wb") as file:
                for start in range(0, size, PIECE):
                    file.write(await self._want(Path(where.folder) / name, start, min(PIECE, size - start)))
        for old in self._home.path.iterdir():
            if old != new:
                await asyncio.to_thread(shutil.rmtree, old)
        return new

    async def _want(self, path: Path, start: int, length: int) -> bytes:
        """A part of a file of the other end's."""
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._wanted[number] = answer
        self._post(Want(number, str(path), start, length))
        content = await answer
        if len(content) != length:
            raise PolicyFault(f"{path} is gone where it was published")
        return content
