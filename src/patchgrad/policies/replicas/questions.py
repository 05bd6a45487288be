"""Questions to the replicas, and what becomes of one whose replica is lost, late or at fault.

What a lost replica was asked is asked of another one: an action is drawn from its own seed, so nothing changes. A replica that answers late
is suspect until it answers a probe of one token; then it was slow, and else it hangs and is ended.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from patchgrad.errors import ContextFault, HostLost, PatchgradError, PolicyFault, SamplingRefused
from patchgrad.policies.replicas.messages import Act
from patchgrad.policies.replicas.present import Present
from patchgrad.policies.replicas.replica import Replica
from patchgrad.policies.replicas.routing import Router
from patchgrad.policies.replicas.updates import Updates
from patchgrad.values import Action, Sampling

TRIES = 2
"""How often a question is lost before it is asked alone, and then; and how often one is asked that is answered with a fault."""

PROBE = 16
"""Tokens that a probe follows on."""


class Questions:
    """Sends each question to the replica that its session is at."""

    def __init__(self, present: Present, updates: Updates) -> None:
        self._present, self._updates = present, updates
        self._router = Router()
        self._alone = asyncio.Lock()

    async def act(self, question: Act, group: str) -> Action:
        """An action.

        A question may be what ends replicas, and those that are open beside it are lost too. So one that was lost twice is asked again
        while no other such one is, and `PolicyFault` is raised where it is lost twice more.
        """
        losses: list[str] = []
        while len(losses) < 2 * TRIES:
            async with self._alone if len(losses) >= TRIES else nullcontext():
                try:
                    return await self._asked(question, group)
                except HostLost as lost:
                    losses.append(str(lost))
        raise PolicyFault(f"{question.session} ended {len(losses)} replicas that were asked for its next turn: {'; '.join(losses)}")

    def release(self, session: str) -> None:
        """A session is over."""
        number = self._router.at(session)
        if number is not None:
            self._present.replicas[number].release(session)
            self._router.release(session)

    def leave(self, number: int) -> None:
        """A replica is gone, with its caches."""
        self._router.leave(number)

    async def _asked(self, question: Act, group: str) -> Action:
        """An action, or `HostLost`; a replica that answers with a fault of its own is looked at, and asked once more."""
        for left in reversed(range(TRIES)):
            replica = await self._routed(question, group)
            try:
                return await self._watched(replica, question)
            except (ContextFault, SamplingRefused):
                raise
            except PolicyFault:
                await self._suspect(replica, question)
                if not left:
                    raise
        raise AssertionError("the last fault is raised")

    async def _routed(self, question: Act, group: str) -> Replica:
        serving = await self._present.any()
        before = self._router.at(question.session)
        size = len(question.tokens) + question.sampling.max_tokens
        number = self._router.choose(question.session, size, group, serving)
        if before is not None and before != number:
            self._present.replicas[before].release(question.session)
        return self._present.replicas[number]

    async def _watched(self, replica: Replica, question: Act) -> Action:
        """Its answer; a replica that is late is probed, and waited for as long as it answers probes."""
        asking = asyncio.ensure_future(replica.act(question))
        seconds = self._present.patience.answer + self._present.patience.token * question.sampling.max_tokens
        try:
            while not (await asyncio.wait({asking}, timeout=seconds))[0]:
                await self._suspect(replica, question)
            return asking.result()
        finally:
            asking.cancel()

    async def _suspect(self, replica: Replica, question: Act) -> None:
        """A probe decides between slow and hung; who answers it takes over the newest weights again before it serves."""
        if replica.standing.state not in ("serving", "draining", "stale"):
            return
        replica.move("suspect")
        probe, seconds = Act("probe", question.tokens[:PROBE], Sampling(1, seed=0)), self._present.patience.probe
        try:
            async with asyncio.timeout(seconds):
                await replica.ask(probe)
        except (TimeoutError, PatchgradError) as error:
            replica.lose(f"{replica.name} is ended, since it does not answer a probe: {str(error) or f'it hangs for {seconds:.0f} s'}")
        else:
            replica.release(probe.session)
            replica.move("stale")
            self._updates.begin(replica)
