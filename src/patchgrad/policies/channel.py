"""The way of the weights within one process: every policy takes over what the trainer holds, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from patchgrad.contracts import TrainablePolicy, Weights


class DirectChannel:
    """Hands the trainer's own tensors to policies of this process; each copies what it needs."""

    def __init__(self, policies: Sequence[TrainablePolicy]) -> None:
        self._policies = tuple(policies)

    async def publish(self, weights: Weights, version: int) -> None:
        for policy in self._policies:
            await asyncio.to_thread(policy.load, weights, version)
