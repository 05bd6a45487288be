"""Figures of one recipe's runs from several seeds: iteration by iteration, the mean over seeds with its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from patchgrad.evaluation import over_seeds
from patchgrad.values import Estimate

Row = Mapping[str, Any]
Step = tuple[str, int]
"""A phase and an iteration of it: runs may have other phases before it."""


def step(row: Row) -> Step:
    """The iteration that a line of `metrics.jsonl` is about."""
    return str(row.get("phase")), int(row.get("iteration", 0))


def steps(runs: Sequence[Sequence[Row]]) -> list[Step]:
    """All iterations of these runs, in order."""
    return sorted({step(row) for rows in runs for row in rows}, key=lambda one: (_order(one[0]), *one))


def _order(phase: str) -> int:
    """Warm-up, fine-tuning, then the stages."""
    return {"warmup": 0, "rft": 1}.get(phase, 2 + int(phase.removeprefix("stage")) if phase.removeprefix("stage").isdigit() else 2)


def means(runs: Sequence[Sequence[Row]], figure: Callable[[Row], float | None], order: Sequence[Step]) -> list[Estimate]:
    """A figure at each iteration: where a run lacks it, over the others; not a number where all do, and an error needs two."""
    told = [{step(row): figure(row) for row in rows} for rows in runs]
    found = [[value for one in told if (value := one.get(place)) is not None] for place in order]
    return [over_seeds(values) if values else Estimate(math.nan, math.nan) for values in found]
