"""Hosts on Ray: an actor on each node that has the resource `cells`. Ray places them, carries messages and says when one died."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import os
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from patchgrad.errors import ClusterFault, HostLost
from patchgrad.rollouts.executors.hosts.host import Host
from patchgrad.rollouts.executors.hosts.links import Link
from patchgrad.rollouts.executors.hosts.messages import Beat, Message
from patchgrad.rollouts.executors.hosts.nodes import Nodes

CELLS = "cells"
"""The resource of a node that takes attempts: how many at once."""

LOOK = 2.0
"""Seconds between two looks for nodes that have come."""

SILENCE = 30.0
"""Seconds without a sign of life after which a host is lost. Ray takes a minute to find a frozen one."""

OPENING = 120.0
"""Seconds in which a host has to say that it is there; a worker that begins on a busy machine takes some."""


log = logging.getLogger(__name__)


@functools.cache
def sources() -> str:
    """A digest of the package's own modules: two machines that differ in it may differ in what an attempt comes to."""
    root = Path(__file__).parents[3]
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return found.hexdigest()


class Served:
    """The actor: a host, with its messages in the order in which they were sent."""

    def __init__(self) -> None:
        self._out: asyncio.Queue[Message] = asyncio.Queue()
        self._host = Host(self._out.put_nowait, Path.home() / ".cache" / "patchgrad" / "archives")
        self._early: dict[int, bytes] = {}
        self._next = 0

    async def sources(self) -> str:
        """A digest of the patchgrad that is here."""
        return sources()

    async def post(self, number: int, messages: bytes) -> None:
        """Messages; calls of an actor that is asynchronous may overtake one another."""
        self._early[number] = messages
        while (content := self._early.pop(self._next, None)) is not None:
            self._next += 1
            try:
                for message in pickle.loads(content):  # from the process that trains
                    self._host.take(message)
            except Exception:
                log.exception("a message could not be taken")
                os._exit(1)  # nobody would wait for what it was about; a host that is lost is noticed

    async def mail(self) -> AsyncIterator[bytes]:
        """What the host says, as long as anybody listens."""
        beating = asyncio.create_task(self._host.beat())
        try:
            while True:
                said = [await self._out.get()]
                while not self._out.empty():
                    said.append(self._out.get_nowait())
                yield pickle.dumps(said)
        finally:
            beating.cancel()

    async def close(self) -> None:
        """Its sandboxes are closed."""
        await self._host.close()


class RayLink:
    """A way to the actor on one node."""

    def __init__(self, actor: Any, name: str, cells: int) -> None:
        self.name, self.cells = name, cells
        self._actor = actor
        self._mail = actor.mail.options(num_returns="streaming").remote()
        self._came: list[Message] = []
        self._out: list[Message] = []
        self._sent = 0
        self.over = False

    async def sources(self) -> str:
        """A digest of the patchgrad at the other end, once that is there."""
        found: str = await self._actor.sources.remote()
        return found

    def post(self, message: Message) -> None:
        """What is posted in one turn of the loop is sent together."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(message)

    def _flush(self) -> None:
        self._actor.post.remote(self._sent, pickle.dumps(self._out))
        self._sent += 1
        self._out = []

    async def received(self) -> Message:
        while not self._came:
            try:
                async with asyncio.timeout(SILENCE):
                    said = pickle.loads(await (await anext(self._mail)))  # from a host of this run
            except TimeoutError:
                raise HostLost(f"{self.name} gave no sign of life for {SILENCE:.0f} s: it is frozen or cut off") from None
            except (RayError, StopAsyncIteration) as error:
                raise HostLost(f"{self.name} is gone") from error
            self._came = [message for message in said if not isinstance(message, Beat)]
        return self._came.pop(0)

    def kill(self) -> None:
        """Ray ends the process, and its sandboxes end with it."""
        self.over = True
        with suppress(Exception):
            ray.kill(self._actor, no_restart=True)

    async def close(self) -> None:
        """The host closes its sandboxes, and ends."""
        with suppress(Exception):
            async with asyncio.timeout(OPENING):
                await self._actor.close.remote()
        self.kill()


class RayHosts:
    """The nodes of the Ray cluster that this process is a driver of, as far as they have cells; those that come later too.

    A node whose host is lost gets another one, if it lives. `ended` is called when all hosts have ended.
    """

    def __init__(self, ended: Callable[[], None] = ray.shutdown) -> None:
        self._ended = ended
        self._links: dict[str, RayLink] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._ready: asyncio.Queue[RayLink] = asyncio.Queue()
        self._refused: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """Why nodes that have cells have no host."""
        return "; ".join(self._refused.values())

    async def joined(self) -> Link:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    return await self._ready.get()
            for node in await asyncio.to_thread(_nodes):
                name, cells = node["NodeID"], int(node["Resources"].get(CELLS, 0))
                there = self._links.get(name)
                if node["Alive"] and cells and name not in self._opening and (there is None or there.over):
                    self._opening[name] = asyncio.create_task(self._open(name, f"{node['NodeManagerHostname']} ({name[:8]})", cells))

    async def _open(self, node: str, name: str, cells: int) -> None:
        """A host on this node; where none begins, it is tried again after a while."""
        placed = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": 0, "resources": {CELLS: cells}, "max_concurrency": 1000, "scheduling_strategy": placed}
        link = RayLink(ray.remote(Served).options(**options).remote(), name, cells)
        try:
            async with asyncio.timeout(OPENING):
                there = await link.sources()
            if there != sources():
                raise ClusterFault("it has other sources of patchgrad than this process: install the same on all machines")
        except (TimeoutError, RayError, ClusterFault) as error:
            link.kill()
            self._refused[node] = f"no host begins on {name}: {error or f'it took {OPENING:.0f} s'}"
            await asyncio.sleep(OPENING)
        except asyncio.CancelledError:
            link.kill()  # else it would keep the node's cells
            raise
        else:
            self._refused.pop(node, None)
            self._links[node] = link
            self._ready.put_nowait(link)
        finally:
            del self._opening[node]

    async def close(self) -> None:
        for task in list(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))
        self._ended()


def _nodes() -> list[dict[str, Any]]:
    try:
        nodes: list[dict[str, Any]] = ray.nodes()
    except Exception as error:  # of Ray's, whose kinds are not told
        raise ClusterFault(f"The head of the cluster does not answer ({error}): resume the run when it does.") from error
    return nodes


def joined(address: str) -> RayHosts:
    """The hosts of the cluster at this address, or with `auto` of the one that this machine is a part of; `ClusterFault` where none is."""
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError) as error:
        raise ClusterFault(f"There is no Ray cluster at {address}: {error}") from error
    return RayHosts()


def started(count: int, cells: int) -> RayHosts:
    """So many nodes of this machine, which share the cells and end with the hosts."""
    nodes = Nodes(count, -(-cells // count))
    ray.init(address=nodes.address, logging_level=logging.ERROR, log_to_driver=False)

    def ended() -> None:
        ray.shutdown()
        nodes.close()

    return RayHosts(ended)
