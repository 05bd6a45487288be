"""Learning rates as functions of the step, which counts from 0."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(rate: float, warmup: int = 0) -> Schedule:
    """Rises linearly over `warmup` steps, then stays: `constant(1.0, 2)` is .5, 1, 1, ..."""
    return lambda step: rate * min(1.0, (step + 1) / max(1, warmup))


def cosine(rate: float, steps: int, warmup: int = 0, floor: float = 0.0) -> Schedule:
    """Rises over `warmup` steps, then falls along a half cosine to `floor` at `steps` and stays there (1608.03983)."""

    def schedule(step: int) -> float:
        if step < warmup:
            return rate * (step + 1) / warmup
        share = min(1.0, (step - warmup) / max(1, steps - warmup))
        return floor + (rate - floor) * 0.5 * (1 + math.cos(math.pi * share))

    return schedule
