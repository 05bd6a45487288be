"""The clipped surrogate of PPO (1707.06347), with DAPO's two bounds (2503.14476) and the dual clip (1912.09729)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from patchgrad.contracts import Objective
from patchgrad.errors import ConfigError

LIMIT = 20.0  # log ratios are cut here before exp; beyond it every clip has long acted


def clipped(low: float = 0.2, high: float = 0.28, dual: float | None = None) -> Objective:
    """Per token -min(r A, clip(r, 1 - low, 1 + high) A) with r = pi / old; with `dual`, at most -dual A where A < 0.

    PPO and GRPO are low = high = 0.2; DAPO 0.2 / 0.28. At r = 1 the gradient is REINFORCE's, so with one update per batch no
    clip ever acts. Metrics, as sums: `ratio`, `clip_low` and `clip_high` (tokens whose gradient a bound removed), `clip_dual`, the
    estimators `kl1` = -log r and `kl3` = r - 1 - log r of KL(old || pi) (Schulman 2020), and `ratio2` = r^2, from which the
    effective sample share (sum r)^2 / (N sum r^2) follows. Example: log r = .5, A = 1 costs -1.28 and counts in `clip_high`.
    """
    if low < 0 or high < 0 or low >= 1 or (dual is not None and dual <= 1 + high):
        raise ConfigError("clipped needs 0 <= low < 1, 0 <= high, and dual above 1 + high")

    def objective(logprobs: Tensor, old: Tensor, advantages: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        difference = (logprobs - old).clamp(-LIMIT, LIMIT)
        ratio = difference.exp()
        free, bound = -ratio * advantages, -ratio.clamp(1 - low, 1 + high) * advantages
        loss = torch.maximum(free, bound)
        with torch.no_grad():
            r = ratio.detach()
            metrics = {
                "ratio": r.sum(),
                "ratio2": r.square().sum(),
                "clip_low": ((r < 1 - low) & (advantages < 0)).sum(),
                "clip_high": ((r > 1 + high) & (advantages > 0)).sum(),
                "kl1": -difference.detach().sum(),
                "kl3": (r - 1 - difference.detach()).sum(),
            }
        if dual is not None:
            ceiling = -dual * advantages
            metrics["clip_dual"] = ((advantages < 0) & (loss.detach() > ceiling)).sum()
            loss = torch.where(advantages < 0, torch.minimum(loss, ceiling), loss)
        return loss.sum(), metrics

    return objective
