"""What every weight channel must hold, as one function that its author runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from patchgrad.contracts import Tokenizer, TrainablePolicy, WeightChannel, Weights
from patchgrad.errors import PolicyFault
from patchgrad.values import Action, Ids, Message, Sampling

SLOW = 0.2  # seconds that a policy takes to load


async def check_weight_channel(make: Callable[[Sequence[TrainablePolicy]], WeightChannel]) -> None:
    """Raises `AssertionError` for the first rule that a channel breaks; `make(policies)` gives one to these policies of this process.

    When `publish` returns, every policy has loaded every weight as it was, once, under its version; versions arrive in their order, and a
    channel without policies has nobody to tell; what else this process does goes on meanwhile; a policy that cannot load is an exception
    for the publisher; and what a trainer does to its weights later changes none that a policy has copied.
    """
    import torch

    await make([]).publish({"head": torch.zeros(2)}, 1)
    policies = [_Listening() for _ in range(3)]
    channel = make(policies)
    weights = {"head": torch.arange(6.0).reshape(2, 3), "layer.0": torch.full((4,), -1.5)}
    for version in (1, 2, 7):
        await channel.publish(weights, version)
        for policy in policies:
            assert policy.version == version, "when a version is published, every policy samples under it"
            assert policy.loads == [*policies[0].loads], "every policy loads the same versions in their order"
            assert sorted(policy.loaded) == sorted(weights), "every weight arrives, by its name"
            for name, tensor in weights.items():
                arrived = policy.loaded[name]
                assert arrived.dtype == tensor.dtype, f"{name} arrives in its precision"
                assert bool(torch.equal(torch.as_tensor(arrived).cpu(), tensor)), f"{name} arrives as it was sent"
        copied = policies[0].loaded["head"]
        weights["head"].add_(1)
        assert not torch.equal(copied, weights["head"]), "a policy keeps what it was sent, whatever the trainer does to it"
    assert policies[0].loads == [1, 2, 7], "each version is loaded once"
    await _check_meanwhile(make, weights)
    try:
        await make([_Listening(fault=PolicyFault("it has no room"))]).publish(weights, 3)
    except PolicyFault:
        return
    raise AssertionError("a policy that cannot load is an exception for the publisher")


async def _check_meanwhile(make: Callable[[Sequence[TrainablePolicy]], WeightChannel], weights: Weights) -> None:
    """A beat that must not stop while weights are loaded."""
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(SLOW / 20)

    heart = asyncio.create_task(beat())
    await asyncio.sleep(0)
    await make([_Listening(SLOW)]).publish(weights, 1)
    heart.cancel()
    assert len(beats) > 3, "while weights are published the process goes on"


class _Listening:
    """A policy that can load weights, and nothing else."""

    def __init__(self, seconds: float = 0.0, fault: Exception | None = None) -> None:
        self._seconds, self._fault = seconds, fault
        self.loads: list[int] = []
        self.loaded: Weights = {}

    @property
    def version(self) -> int:
        return self.loads[-1] if self.loads else 0

    def load(self, weights: Weights, version: int) -> None:
        time.sleep(self._seconds)
        if self._fault is not None:
            raise self._fault
        self.loaded = {name: weights[name].clone() for name in weights}
        self.loads.append(version)

    @property
    def context(self) -> int:
        raise AssertionError("a channel only loads")

    @property
    def tokenizer(self) -> Tokenizer:
        raise AssertionError("a channel only loads")

    @property
    def stops(self) -> frozenset[int]:
        raise AssertionError("a channel only loads")

    def encode(self, messages: Sequence[Message], previous: Action | None) -> Ids:
        raise AssertionError("a channel only loads")

    async def act(self, session: str, tokens: Ids, sampling: Sampling) -> Action:
        raise AssertionError("a channel only loads")

    def release(self, session: str) -> None:
        raise AssertionError("a channel only loads")

    def close(self) -> None:
        raise AssertionError("a channel only loads")
