"""What an executor needs of a cluster."""

from __future__ import annotations

from typing import Protocol

from patchgrad.rollouts.executors.hosts.messages import Message


class Link(Protocol):
    """A way to one host that is there. `received` raises `HostLost` where the host is gone, or gives no sign of life.

    After `kill` nothing goes on that the host has begun.
    """

    @property
    def name(self) -> str: ...
    @property
    def cells(self) -> int: ...
    def post(self, message: Message) -> None: ...
    async def received(self) -> Message: ...
    def kill(self) -> None: ...


class Hosts(Protocol):
    """The hosts of a cluster: `joined` waits for the next one, `close` ends all of them. `trouble` says why there are no more."""

    @property
    def trouble(self) -> str: ...
    async def joined(self) -> Link: ...
    async def close(self) -> None: ...
