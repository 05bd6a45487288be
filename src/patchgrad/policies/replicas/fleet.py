"""The replicas that are there: each is kept alive, brought to the newest weights, and asked.

A replica that dies is made anew, and what it was asked is asked again elsewhere: an action is drawn from its own seed, so nothing changes.
One that answers late is suspect until it answers a probe of one token; then it was slow, and else it hangs and is ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from patchgrad.errors import (
    ConfigError,
    ContextFault,
    HostLost,
    MissingDependency,
    PatchgradError,
    PolicyFault,
    SamplingRefused,
)
from patchgrad.links import Link
from patchgrad.policies.publications import Published
from patchgrad.policies.replicas.messages import Act, Load, Open, Where
from patchgrad.policies.replicas.replica import Replica
from patchgrad.policies.replicas.routing import Router
from patchgrad.values import Action, Sampling

TRIES = 2
"""How often a question is asked again before it is asked alone, and then; and after an answer that was a fault."""

LIVES = 3
"""Of a replica, in a row in which it does not open."""

PROBE = 16
"""Tokens that a probe follows on."""

Opening = Callable[[int], Awaitable[Link]]
"""Makes a link to the replica of this number, in a fresh process; `ClusterFault` where it cannot."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: in which a replica opens, takes over weights, and answers a probe; in which it answers, and more a token; between lives."""

    opening: float = 1800.0
    loading: float = 900.0
    probe: float = 60.0
    answer: float = 120.0
    token: float = 0.5
    again: float = 5.0


PATIENT = Patience()


@dataclass(slots=True)
class Fleet:
    """Replicas by their numbers, under the newest weights. `opened` makes a link to a fresh process; `maker` is called there.

    Everything happens in one event loop.
    """

    opened: Opening
    maker: str
    options: Mapping[str, Any]
    newest: Published
    patience: Patience = PATIENT
    replicas: dict[int, Replica] = field(default_factory=dict)
    router: Router = field(default_factory=Router)
    over: dict[int, PatchgradError] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _lives: list[asyncio.Task[None]] = field(default_factory=list)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    _updates: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self, count: int) -> None:
        """So many replicas serve, or as many as can; raises why none does."""
        self._lives += [asyncio.create_task(self._tend(number)) for number in range(count)]
        await self._until(lambda: len(self._serving()) + len(self.over) == count)
        if not self._serving():
            raise next(iter(self.over.values()))

    async def close(self) -> None:
        """Ends them all."""
        for task in (*self._lives, *self._updates):
            task.cancel()
        await asyncio.gather(*self._lives, *self._updates, return_exceptions=True)

    async def act(self, question: Act, group: str) -> Action:
        """The answer of the replica that the session is at, or of another one where that is lost or answers with a fault.

        A question may be what ends replicas, and those that are open beside it are lost too. So one that was lost twice is asked again
        while no other such one is, and `PolicyFault` is raised where it is lost twice more.
        """
        faults: list[str] = []
        while len(faults) < 2 * TRIES:
            async with self._alone if len(faults) >= TRIES else nullcontext():
                try:
                    return await self._asked(question, group)
                except HostLost as lost:
                    faults.append(str(lost))
        raise PolicyFault(f"{question.session} ended {len(faults)} replicas that were asked for its next turn: {'; '.join(faults)}")

    async def _asked(self, question: Act, group: str) -> Action:
        """An action, or `HostLost`; a replica that answers with a fault of its own is looked at, and another one is asked."""
        for left in reversed(range(TRIES)):
            there = await self._routed(question, group)
            try:
                return await self._watched(there, question)
            except (ContextFault, SamplingRefused):
                raise
            except PolicyFault:
                await self._suspect(there, question)
                if not left:
                    raise
        raise AssertionError("the last fault is raised")

    def release(self, session: str) -> None:
        """A session is over."""
        number = self.router.at(session)
        if number is not None:
            self.replicas[number].release(session)
            self.router.release(session)

    async def take_over(self, publication: Published) -> None:
        """Every replica that serves when this returns has these weights. Where some act, a tenth of them drains at a time."""
        self.newest = publication
        there = list(self.replicas.values())
        gate = asyncio.Semaphore(max(1, len(there) // 10) if any(one.acting for one in there) else len(there))

        async def update(one: Replica) -> None:
            async with gate:
                await self._update(one)

        await asyncio.gather(*map(update, there))
        await self._any()

    def _serving(self) -> list[int]:
        return [number for number, one in self.replicas.items() if one.standing.state == "serving"]

    async def _routed(self, question: Act, group: str) -> Replica:
        await self._any()
        before = self.router.at(question.session)
        size = len(question.tokens) + question.sampling.max_tokens
        number = self.router.choose(question.session, size, group, self._serving())
        if before is not None and before != number:
            self.replicas[before].release(question.session)
        return self.replicas[number]

    async def _any(self) -> None:
        """One serves; `PolicyFault` where none will."""
        await self._until(lambda: self._serving() or len(self.over) == len(self._lives))
        if not self._serving():
            told = "; ".join(f"{number}: {why}" for number, why in self.over.items())
            raise PolicyFault(f"No replica of the policy is left ({told}): resume the run where they can open.")

    async def _watched(self, there: Replica, question: Act) -> Action:
        """Its answer; a replica that is late is probed, and waited for as long as it answers probes."""
        asking = asyncio.ensure_future(there.act(question))
        seconds = self.patience.answer + self.patience.token * question.sampling.max_tokens
        try:
            while not (await asyncio.wait({asking}, timeout=seconds))[0]:
                await self._suspect(there, question)
            return asking.result()
        finally:
            asking.cancel()

    async def _suspect(self, there: Replica, question: Act) -> None:
        """A probe decides between slow and hung; who answers it takes over the newest weights again before it serves."""
        if there.standing.state not in ("serving", "draining", "stale"):
            return
        there.move("suspect")
        probe = Act("probe", question.tokens[:PROBE], Sampling(1, seed=0))
        try:
            async with asyncio.timeout(self.patience.probe):
                await there.ask(probe)
        except (TimeoutError, PatchgradError) as error:
            there.lose(
                f"{there.name} is ended, since it does not answer a probe: {str(error) or f'it hangs for {self.patience.probe:.0f} s'}"
            )
        else:
            there.release(probe.session)
            there.move("stale")
            self._updates.add(update := asyncio.create_task(self._update(there)))
            update.add_done_callback(self._updates.discard)

    async def _update(self, there: Replica) -> None:
        """A replica that is there has the newest weights; one that cannot take them over is ended."""
        async with there.loading:
            try:
                while self._behind(there):
                    await self._load(there)
            except (TimeoutError, PatchgradError) as error:
                there.lose(f"{there.name} could not take over weights: {str(error) or f'it took {self.patience.loading:.0f} s'}")

    def _behind(self, there: Replica) -> bool:
        state = there.standing.state
        return state in ("stale", "suspect", "draining") or (state == "serving" and there.standing.weights != self.newest.digest)

    async def _load(self, there: Replica) -> None:
        if there.standing.state == "serving":
            there.move("draining")
        await self._until(lambda: there.lost or (not there.acting and there.standing.state != "suspect"))
        wanted = self.newest
        async with asyncio.timeout(self.patience.loading):
            found = await there.ask(Load(where(wanted)))
        if found != wanted.digest:
            raise PolicyFault("it read other weights than those that were published")
        there.standing.loaded(found, self.newest.digest)
        self._tell()

    async def _tend(self, number: int) -> None:
        """One life of a replica after the other, until it gives up."""
        barren = 0
        while True:
            try:
                there = await self._lived(number)
            except (ConfigError, MissingDependency) as error:  # the next life would say the same
                self.over[number] = error
                return self._tell()
            barren = 0 if there.opened else barren + 1
            log.warning("a replica of the policy is lost: %s", there.lost)
            if barren == LIVES:
                self.over[number] = PolicyFault(f"it began {LIVES} times and did not open: {there.lost}")
                return self._tell()
            await asyncio.sleep(self.patience.again * barren)

    async def _lived(self, number: int) -> Replica:
        """A replica that was made, served, and is lost."""
        there = self.replicas[number] = Replica(await self.opened(number), self.newest.folder.parent, self._tell)
        listening = asyncio.create_task(there.listen())
        try:
            async with asyncio.timeout(self.patience.opening):
                found = await there.ask(Open(self.maker, self.options, where(self.newest)))
            there.opened = True
            there.move("stale")
            there.standing.loaded(found, self.newest.digest)
            self._tell()
            await self._update(there)
            await listening
        except (ConfigError, MissingDependency):
            there.lose(f"{there.name} does not open")
            raise
        except (TimeoutError, PatchgradError) as error:
            there.lose(f"{there.name} did not open: {str(error) or f'it took {self.patience.opening:.0f} s'}")
        finally:
            listening.cancel()
            self.router.leave(number)
            if not there.lost:
                await there.close()
        return there

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _until(self, ready: Callable[[], object]) -> None:
        while not ready():
            await self._news.wait()


def where(publication: Published) -> Where:
    """What a replica is told of it."""
    return Where(str(publication.folder), publication.digest, publication.files)
