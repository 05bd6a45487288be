"""Replicas are kept alive: each has one life after the other, until it does not open any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from patchgrad.errors import ConfigError, MissingDependency, PatchgradError, PolicyFault
from patchgrad.links import Link
from patchgrad.policies.replicas.messages import Open, Where
from patchgrad.policies.replicas.present import Present
from patchgrad.policies.replicas.replica import Replica
from patchgrad.policies.replicas.updates import Updates

LIVES = 3
"""Of a replica, in a row in which it does not open."""

Opening = Callable[[int], Awaitable[Link]]
"""Makes a link to the replica of this number, in a fresh process; `ClusterFault` where it cannot."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Made:
    """How a replica is made: a process by `opened`, and there a policy by `maker`, `package.module:name`, with these options.

    Does what it makes take over weights `within` an action?
    """

    opened: Opening
    maker: str
    options: Mapping[str, Any]
    within: bool = False


class Lives:
    """Begins replicas, and again those that are lost; `left` is told of each that is."""

    def __init__(self, present: Present, updates: Updates, made: Made, left: Callable[[int], None]) -> None:
        self.present, self._updates, self._made, self._left = present, updates, made, left
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """All replicas serve, or as many as can; raises why none does."""
        present = self.present
        self._tasks = [asyncio.create_task(self._tend(number)) for number in range(present.count)]
        await present.until(lambda: len(present.serving()) + len(present.over) == present.count)
        if not present.serving():
            raise next(iter(present.over.values()))

    async def close(self) -> None:
        """Ends them all; who waits for an action gets a `PolicyFault`."""
        for number in range(self.present.count):
            self._give_up(number, PolicyFault("the policy was closed"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tend(self, number: int) -> None:
        barren, why = 0, ""
        while barren < LIVES:
            try:
                opened, why = await self._lived(number)
            except (ConfigError, MissingDependency) as error:  # the next life would say the same
                self._give_up(number, error)
                return
            except Exception as error:  # whatever it is, the others go on
                opened, why = False, str(error) or type(error).__name__
            log.warning("a replica of the policy is lost: %s", why)
            barren = 0 if opened else barren + 1
            await asyncio.sleep(self.present.patience.again * barren)
        self._give_up(number, PolicyFault(f"it began {LIVES} times and did not open: {why}"))

    def _give_up(self, number: int, why: PatchgradError) -> None:
        self.present.over[number] = why
        self.present.tell()

    async def _lived(self, number: int) -> tuple[bool, str]:
        """A replica is made, serves, and is lost. Did it open, and why is it lost?"""
        present = self.present
        replica = Replica(await self._made.opened(number), present.newest.folder.parent, present.tell)
        present.replicas[number] = replica
        listening = asyncio.create_task(replica.listen())
        try:
            await self._open(replica)
            await self._updates.update(replica)
            await listening
        except (ConfigError, MissingDependency):
            replica.lose(f"{replica.name} does not open")
            raise
        except TimeoutError:
            replica.lose(f"{replica.name} did not open in {present.patience.opening:.0f} s")
        except Exception as error:
            replica.lose(f"{replica.name} is ended: {str(error) or type(error).__name__}")
        finally:
            listening.cancel()
            self._left(number)
            if not replica.lost:
                await replica.close()
        return replica.opened, replica.lost

    async def _open(self, replica: Replica) -> None:
        newest = self.present.newest
        async with asyncio.timeout(self.present.patience.opening):
            found = await replica.ask(Open(self._made.maker, self._made.options, Where.of(newest)))
        replica.opened = True
        replica.move("stale")
        replica.standing.loaded(found, self.present.newest.digest)
        self.present.tell()
