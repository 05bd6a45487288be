"""Every weight channel against the contract."""

from __future__ import annotations

import asyncio

import pytest

from patchgrad.contracts import Weights
from patchgrad.policies.channel import DirectChannel
from patchgrad.testing import check_weight_channel


def test_the_direct_channel_keeps_the_contract() -> None:
    asyncio.run(check_weight_channel(DirectChannel))


def test_a_channel_that_returns_too_early_or_holds_up_the_process_is_found_out() -> None:
    class Early(DirectChannel):
        async def publish(self, weights: Weights, version: int) -> None:
            self.sent = asyncio.create_task(super().publish(weights, version))

    with pytest.raises(AssertionError, match="every policy samples under it"):
        asyncio.run(check_weight_channel(Early))

    class Blocking(DirectChannel):
        async def publish(self, weights: Weights, version: int) -> None:
            for policy in self._policies:
                policy.load(weights, version)

    with pytest.raises(AssertionError, match="the process goes on"):
        asyncio.run(check_weight_channel(Blocking))
