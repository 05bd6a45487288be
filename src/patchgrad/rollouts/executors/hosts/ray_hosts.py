"""Hosts on Ray: an actor on each node that has the resource `cells`. Ray places them, carries messages and says when one died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from patchgrad.errors import ClusterFault
from patchgrad.links.link import OPENING
from patchgrad.links.ray_link import RayLink, nodes
from patchgrad.rollouts.executors.hosts.host import CACHED
from patchgrad.rollouts.executors.hosts.links import CELLS, HostLink
from patchgrad.rollouts.executors.hosts.nodes import Nodes

LOOK = 2.0
"""Seconds between two looks for nodes that have come."""


class RayHost(RayLink):
    """A way to the host on one node, which has so many cells."""

    def __init__(self, node: str, name: str, cells: int) -> None:
        placed = NodeAffinitySchedulingStrategy(node, soft=False)
        super().__init__(name, {"num_cpus": 0, "resources": {CELLS: cells}, "scheduling_strategy": placed}, CACHED)
        self.cells = cells


class RayHosts:
    """The nodes of the Ray cluster that this process is a driver of, as far as they have cells; those that come later too.

    A node whose host is lost gets another one, if it lives. `ended` is called when all hosts have ended.
    """

    def __init__(self, ended: Callable[[], None] = ray.shutdown) -> None:
        self._ended = ended
        self._links: dict[str, RayHost] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._ready: asyncio.Queue[RayHost] = asyncio.Queue()
        self._refused: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """Why nodes that have cells have no host."""
        return "; ".join(self._refused.values())

    async def joined(self) -> HostLink:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    return await self._ready.get()
            for node in await nodes():
                name, cells = node["NodeID"], int(node["Resources"].get(CELLS, 0))
                there = self._links.get(name)
                if node["Alive"] and cells and name not in self._opening and (there is None or there.over):
                    self._opening[name] = asyncio.create_task(self._open(name, f"{node['NodeManagerHostname']} ({name[:8]})", cells))

    async def _open(self, node: str, name: str, cells: int) -> None:
        """A host on this node; where none begins, it is tried again after a while."""
        link = RayHost(node, name, cells)
        try:
            await link.opened()
        except ClusterFault as error:
            link.kill()
            self._refused[node] = f"no host begins on {name}: {error}"
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


def joined(address: str) -> RayHosts:
    """The hosts of the cluster at this address, or with `auto` of the one that this machine is a part of; `ClusterFault` where none is."""
    try:
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError) as error:
        raise ClusterFault(f"There is no Ray cluster at {address}: {error}") from error
    return RayHosts()


def started(count: int, cells: int) -> RayHosts:
    """So many nodes of this machine, which share the cells and end with the hosts."""
    own = Nodes(count, -(-cells // count))
    try:
        ray.init(address=own.address, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError) as error:
        own.close()
        raise ClusterFault(f"The nodes of this machine cannot be reached: {error}") from error

    def ended() -> None:
        ray.shutdown()
        own.close()

    return RayHosts(ended)
