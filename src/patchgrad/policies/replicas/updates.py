"""Newer weights for the replicas that are there."""

from __future__ import annotations

import asyncio

from patchgrad.errors import PatchgradError, PolicyFault
from patchgrad.policies.publications import Published
from patchgrad.policies.replicas.messages import Load, Where
from patchgrad.policies.replicas.present import Present
from patchgrad.policies.replicas.replica import Replica


class Updates:
    """A replica drains, loads and serves again; one that cannot is ended, and begins anew with the newest weights."""

    def __init__(self, present: Present) -> None:
        self._present = present
        self._under_way: set[asyncio.Task[None]] = set()

    async def take_over(self, publication: Published) -> None:
        """Every replica that serves when this returns has these weights. Where some act, a tenth of them drains at a time."""
        self._present.newest = publication
        there = list(self._present.replicas.values())
        gate = asyncio.Semaphore(max(1, len(there) // 10 if any(one.acting for one in there) else len(there)))

        async def one(replica: Replica) -> None:
            async with gate:
                await self.update(replica)

        await asyncio.gather(*map(one, there))
        await self._present.any()

    def begin(self, replica: Replica) -> None:
        """Updates a replica, and waits for nothing."""
        self._under_way.add(task := asyncio.create_task(self.update(replica)))
        task.add_done_callback(self._under_way.discard)

    async def update(self, replica: Replica) -> None:
        """A replica that is there has the newest weights."""
        async with replica.loading:
            try:
                while self._behind(replica):
                    await self._load(replica)
            except (TimeoutError, PatchgradError) as error:
                why = str(error) or f"it took {self._present.patience.loading:.0f} s"
                replica.lose(f"{replica.name} could not take over weights: {why}")

    async def close(self) -> None:
        """Nothing is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _behind(self, replica: Replica) -> bool:
        standing = replica.standing
        old = standing.state == "serving" and standing.weights != self._present.newest.digest
        return old or standing.state in ("stale", "suspect", "draining")

    def _idle(self, replica: Replica) -> bool:
        """May it take over weights, as far as its actions go?"""
        return self._present.within or not replica.acting

    async def _load(self, replica: Replica) -> None:
        if replica.standing.state == "serving":
            replica.move("draining")
        await self._present.until(lambda: replica.lost or (self._idle(replica) and replica.standing.state != "suspect"))
        wanted = self._present.newest
        async with asyncio.timeout(self._present.patience.loading):
            found = await replica.ask(Load(Where.of(wanted)))
        if found != wanted.digest:
            raise PolicyFault("it read other weights than those that were published")
        replica.standing.loaded(found, self._present.newest.digest)
        self._present.tell()
