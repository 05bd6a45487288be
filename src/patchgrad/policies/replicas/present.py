"""Which replicas are there, and under which weights they should be: what those share who keep, update and ask them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from patchgrad.errors import PatchgradError, PolicyFault
from patchgrad.policies.publications import Published
from patchgrad.policies.replicas.replica import Replica


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
class Present:
    """Replicas by their numbers, of `count` that there should be; why some are given up; the newest weights. All in one event loop.

    They take over weights when they do not act, or `within` an action.
    """

    count: int
    newest: Published
    patience: Patience = PATIENT
    within: bool = False
    replicas: dict[int, Replica] = field(default_factory=dict)
    over: dict[int, PatchgradError] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def serving(self) -> list[int]:
        """Those that may be asked."""
        return [number for number, one in self.replicas.items() if one.standing.state == "serving"]

    async def any(self) -> list[int]:
        """Those that may be asked, as soon as there is one; `PolicyFault` where there will be none."""
        await self.until(lambda: self.serving() or len(self.over) == self.count)
        if found := self.serving():
            return found
        told = "; ".join(f"{number}: {why}" for number, why in sorted(self.over.items()))
        raise PolicyFault(f"No replica of the policy is left ({told}): resume the run where they can open.")

    def tell(self) -> None:
        """Something has changed."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def until(self, ready: Callable[[], object]) -> None:
        """Waits for it, and looks at each change."""
        while not ready():
            await self._news.wait()
