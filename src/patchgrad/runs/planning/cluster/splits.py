"""Which nodes sample and which train: a table of simulated iterations, and the best of what this version does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from patchgrad.runs.planning.cluster.simulation import Iterated, Simulation
from patchgrad.runs.planning.cluster.world import World

LAGS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Row:
    """A way to use the machines, with its seconds an iteration over seeds, their standard error, and shares of time."""

    samplers: int
    trainers: int
    lag: int
    seconds: float
    error: float
    idle: float
    busy: float
    built: bool

    @property
    def name(self) -> str:
        """`8 + 8` sample and train; `16 in turn` do one and then the other."""
        return f"{self.samplers} + {self.trainers}" if self.built else f"{self.samplers} in turn"


def ways(world: World, fewest: int = 1, lags: Sequence[int] = LAGS) -> list[World]:
    """The ways that are simulated: all nodes in turn, and quarters of them apart, with each lag; `fewest` nodes at least train."""
    nodes = world.machines.nodes
    parts = dict.fromkeys(min(nodes - 1, max(fewest, round(nodes * part))) for part in (0.25, 0.5, 0.75))
    apart = [replace(world, samplers=nodes - trainers, trainers=trainers, lag=lag) for trainers in sorted(parts) for lag in lags]
    return [replace(world, samplers=nodes, trainers=nodes, lag=0), *apart]


def rows(worlds: Iterable[World], seeds: Sequence[int]) -> Iterable[Row]:
    """Each of these ways, as it is simulated."""
    for world in worlds:
        found = [Simulation(world, seed).run() for seed in seeds]
        each = [one.iteration for one in found]
        error = stdev(each) / math.sqrt(len(each)) if len(each) > 1 else math.nan
        yield Row(world.samplers, world.trainers, world.lag, fmean(each), error, *_shares(found), not world.in_turn)


def _shares(found: Sequence[Iterated]) -> tuple[float, float]:
    return fmean(one.idle for one in found), fmean(one.busy for one in found)


def best(found: Sequence[Row]) -> Row:
    """The fastest of what this version does."""
    return min((row for row in found if row.built), key=lambda row: row.seconds)
