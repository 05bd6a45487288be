"""What an executor needs of a cluster."""

from __future__ import annotations

from typing import Protocol

from patchgrad.links import Link

CELLS = "cells"
"""The resource of a node of Ray's that takes attempts: how many at once."""


class HostLink(Link, Protocol):
    """A way to one host that is there, which takes so many attempts at once."""

    @property
    def cells(self) -> int: ...


class Hosts(Protocol):
    """The hosts of a cluster: `joined` waits for the next one, `close` ends all of them. `trouble` says why there are no more."""

    @property
    def trouble(self) -> str: ...
    async def joined(self) -> HostLink: ...
    async def close(self) -> None: ...
