"""What an executor needs of a cluster."""

from __future__ import annotations

from typing import Protocol

from patchgrad.links import Link

CELLS = "cells"
"""The resource of a node of Ray's that takes attempts: how many at once."""


UNWATCHED = {"RAY_memory_monitor_refresh_ms": "0"}
"""For the environment that a node begins in: Ray does not end its workers there when the machine is short of memory.

Else, where 95 % are taken by whatever it is, Ray would end the host of all attempts, or a replica. Sandboxes have limits of their own, and
none is opened where the machine is short of memory (`sandboxes/admission.py`, which does not read the limit of a control group). A user's
own setting goes before this one.
"""


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
