"""CISPO (2506.13585): the ratio is a weight that is bounded, so that no token loses its gradient. Two losses go by this name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from patchgrad.contracts import LOG_RATIO, Trained
from patchgrad.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Cispo:
    """Per token -sg[min(r, 1 + high)] A log pi with r = pi / old: bounded above alone, as ScaleRL (2510.13786) and TRL have it.

    The weight is at most 5 by default, which is TRL's `epsilon_high` of 5. With no bound, and r = pi / sampled, it is REINFORCE with
    importance sampling token by token.
    """

    high: float = 4.0

    def __post_init__(self) -> None:
        if self.high < 0:
            raise ConfigError("cispo needs 0 <= high")

    def __call__(self, tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
        return _weighted(tokens, -math.inf, 1 + self.high)


@dataclass(frozen=True, slots=True)
class CispoTwoSided:
    """Per token -sg[clip(r, 1 - low, 1 + high)] A log pi: bounded on both sides, as verl has it.

    What the policy has turned away from keeps a weight of at least 1 - low.
    """

    low: float = 0.2
    high: float = 0.28

    def __post_init__(self) -> None:
        if self.low < 0 or self.high < 0 or self.low >= 1:
            raise ConfigError("cispo_two_sided needs 0 <= low < 1 and 0 <= high")

    def __call__(self, tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
        return _weighted(tokens, 1 - self.low, 1 + self.high)


def _weighted(tokens: Trained, low: float, high: float) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Metrics, as sums: `clip_low` and `clip_high`, tokens whose weight is a bound; they keep their gradient."""
    ratio = (tokens.logprobs - tokens.old).detach().clamp(-LOG_RATIO, LOG_RATIO).exp()
    losses = -ratio.clamp(low, high) * tokens.advantages * tokens.logprobs
    return losses, {"clip_low": (ratio < low).sum(), "clip_high": (ratio > high).sum()}
