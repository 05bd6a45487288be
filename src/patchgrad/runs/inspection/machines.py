"""What the machines of a cluster can do: each looks at itself, and tells."""

from __future__ import annotations

import asyncio
import pickle
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from patchgrad.errors import HostLost
from patchgrad.rollouts.executors.hosts import HostLink, Hosts
from patchgrad.rollouts.executors.hosts.messages import Done, Start, Work

FIRST, NEXT = 120.0, 15.0
"""Seconds in which a machine has to come: the first one, and each other one after the last."""

ANSWER = 120.0
"""Seconds in which a machine has to look at itself."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: what it said, by how many seconds its clock is ahead of this one, and why it said nothing, if so."""

    name: str
    cells: int
    said: Any = None
    ahead: float = 0.0
    free: int = 0
    lost: str = ""


async def machines(hosts: Hosts, function: str, wait: float = NEXT) -> list[Machine]:
    """What `function`, `package.module:name`, gives on each host that comes; it takes nothing, and what it gives pickles.

    No other machine is waited for when none has come for so many seconds.
    """
    asked: list[asyncio.Task[Machine]] = []
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(wait if asked else FIRST):
                asked.append(asyncio.create_task(_asked(await hosts.joined(), function)))
    return [await one for one in asked]


async def _asked(link: HostLink, function: str) -> Machine:
    began = time.time()
    link.post(Work(1, f"{__name__}:looked", pickle.dumps(function), {}))
    link.post(Start(1, 1, pickle.dumps(None)))
    try:
        async with asyncio.timeout(ANSWER):
            message = await link.received()
            while not isinstance(message, Done):
                message = await link.received()
    except (HostLost, TimeoutError) as lost:
        return Machine(link.name, link.cells, lost=str(lost) or f"it gave no answer in {ANSWER:.0f} s")
    told = pickle.loads(message.result)  # from a host of this cluster
    if message.failed:
        return Machine(link.name, link.cells, lost=str(told))
    middle = (began + time.time()) / 2
    return Machine(link.name, link.cells, told["said"], round(told["time"] - middle, 1), told["free"])


async def looked(function: str, item: object) -> Mapping[str, Any]:
    """On a host: what the function says, the time, and the bytes that are free where sandboxes are."""
    module, _, name = function.partition(":")
    began = time.time()
    said = await asyncio.to_thread(getattr(import_module(module), name))
    return {"said": said, "time": (began + time.time()) / 2, "free": shutil.disk_usage(tempfile.gettempdir()).free}
