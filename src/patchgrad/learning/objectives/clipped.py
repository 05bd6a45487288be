"""The clipped surrogate of PPO (1707.06347), with DAPO's two bounds (2503.14476) and the dual clip (1912.09729)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from patchgrad.contracts import LOG_RATIO, Trained
from patchgrad.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Clipped:
    """Per token -min(r A, clip(r, 1 - low, 1 + high) A) with r = pi / old; with `dual`, at most -dual A where A < 0.

    PPO and GRPO are low = high = 0.2; DAPO 0.2 / 0.28. At r = 1 the gradient is REINFORCE's, so with one update per batch no
    clip ever acts. Metrics, as sums over tokens: `clip_low` and `clip_high`, those whose gradient a bound removed, and `clip_dual`.
    Example: log r = .5, A = 1 costs -1.28 and counts in `clip_high`.
    """

    low: float = 0.2
    high: float = 0.28
    dual: float | None = None

    def __post_init__(self) -> None:
        if self.low < 0 or self.high < 0 or self.low >= 1 or (self.dual is not None and self.dual <= 1 + self.high):
            raise ConfigError("clipped needs 0 <= low < 1, 0 <= high, and dual above 1 + high")

    def __call__(self, tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
        ratio = (tokens.logprobs - tokens.old).clamp(-LOG_RATIO, LOG_RATIO).exp()
        losses, metrics = surrogate(ratio, tokens.advantages, self.low, self.high)
        if self.dual is not None:
            ceiling = -self.dual * tokens.advantages
            metrics["clip_dual"] = ((tokens.advantages < 0) & (losses.detach() > ceiling)).sum()
            losses = torch.where(tokens.advantages < 0, torch.minimum(losses, ceiling), losses)
        return losses, metrics


def surrogate(ratio: Tensor, advantages: Tensor, low: float, high: float) -> tuple[Tensor, dict[str, Tensor]]:
    """-min(r A, clip(r, 1 - low, 1 + high) A), and how many tokens have no gradient for it, below and above."""
    losses = torch.maximum(-ratio * advantages, -ratio.clamp(1 - low, 1 + high) * advantages)
    r = ratio.detach()
    return losses, {
        "clip_low": ((r < 1 - low) & (advantages < 0)).sum(),
        "clip_high": ((r > 1 + high) & (advantages > 0)).sum(),
    }
