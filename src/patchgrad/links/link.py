"""What two processes need to talk to each other: messages in their order, and to know when the other one is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from patchgrad.links.notice import Notice, noticed
from patchgrad.links.spending import Spent, spent

Message = Any
"""A value that pickles, of a module that both ends have."""

BEAT = 2.0
"""Seconds between two signs of life."""

SILENCE = 30.0
"""Seconds without a sign of life after which the other end is lost. Ray takes a minute to find a frozen process."""

OPENING = 120.0
"""Seconds in which a guest on a cluster has to say that it is there; a worker that begins on a busy machine takes some."""

CLOSING = 120.0
"""Seconds in which a guest has to put away what it has opened."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The sender is alive, and has computed so much."""

    spent: Spent | None


class Link(Protocol):
    """A way to a guest in another process. `received` raises `HostLost` where that is gone, or gives no sign of life.

    After `kill` nothing goes on that the guest has begun. `close` lets it put away what it has opened, and then ends it.
    """

    @property
    def name(self) -> str: ...
    def post(self, message: Message) -> None: ...
    async def received(self) -> Message: ...
    def kill(self) -> None: ...
    async def close(self) -> None: ...


class Guest(Protocol):
    """What lives at the other end, made by a function `package.module:name` that is called with a way back and with strings.

    `take` gets each message, in the thread of the event loop. `close` puts away what was opened.
    """

    def take(self, message: Message) -> None: ...
    async def close(self) -> None: ...


def made(kind: str, post: Callable[[Message], None], *arguments: str) -> Guest:
    """The guest that a function makes."""
    module, _, name = kind.partition(":")
    guest: Guest = getattr(import_module(module), name)(post, *arguments)
    return guest


async def beating(post: Callable[[Message], None]) -> None:
    """Says every few seconds that this process is alive, and once that its machine is about to end."""
    told = False
    while True:
        post(Beat(spent()))
        if not told and (why := noticed()):
            told = True
            post(Notice(why))
        await asyncio.sleep(BEAT)
