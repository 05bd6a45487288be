"""How often do intervals that say 95 % hold the truth? Simulated evaluations, ours beside the usual formulas.

    python benchmarks/evaluation/calibration.py [--suites 10000] [--seed 0]

Each suite is an evaluation of its own: a mean solve rate and how alike a task's attempts are, drawn anew; the rates of its tasks, from the
beta distribution with that mean and likeness; and the attempts. The truth is the mean of that distribution, or for the error over runs the
mean of the very rates. Prints tables in percent, and JSON last.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell

from patchgrad.evaluation import between, over_runs, wilson

Array = npt.NDArray[np.float64]
Interval = tuple[float, float]
TASKS, RUNS = (20, 40, 60, 100, 500), (1, 2, 5, 10)
RATES, ALIKE = (0.05, 0.60), (0.15, 0.80)  # of the two papers' tables and of the laptop's reports, roughly


@dataclass(frozen=True, slots=True)
class Population:
    """Tasks of one kind: their mean solve rate, how alike attempts at one are (0: one rate for all, 1: always or never), and the share of
    tasks that are never solved, whatever the others are.
    """

    mean: float
    alike: float
    never: float = 0.0

    def rates(self, rng: np.random.Generator, tasks: int) -> Array:
        """Solve rates of some of its tasks."""
        mean = self.mean / (1 - self.never)
        if self.alike in (0.0, 1.0):
            drawn = np.full(tasks, mean) if self.alike == 0.0 else (rng.random(tasks) < mean).astype(float)
        else:
            size = 1 / self.alike - 1
            drawn = rng.beta(mean * size, (1 - mean) * size, tasks)
        return np.where(rng.random(tasks) < self.never, 0.0, drawn) if self.never else drawn


HARD = {
    "5 %, alike by 0.2": Population(0.05, 0.2),
    "10 %, alike by 0.25": Population(0.10, 0.25),
    "25 %, alike by 0.2": Population(0.25, 0.2),
    "40 %, alike by 0.5": Population(0.40, 0.5),
    "30 %, tasks all the same": Population(0.30, 0.0),
    "20 %, each always or never": Population(0.20, 1.0),
    "20 %, three fifths never": Population(0.20, 0.3, 0.6),
}


@dataclass(frozen=True, slots=True)
class Suite:
    """The solved shares of one evaluation by task and run, `[N, R]`, the true mean over all tasks, and over these."""

    solved: Array
    truth: float
    here: float

    @property
    def shares(self) -> Array:
        """One a task."""
        return np.asarray(self.solved.mean(axis=1))


def suites(rng: np.random.Generator, count: int, tasks: int, runs: int, fixed: Population | None = None) -> Iterator[Suite]:
    """Evaluations, each of a population of its own unless one is given."""
    for _ in range(count):
        population = fixed or Population(rng.uniform(*RATES), rng.uniform(*ALIKE))
        chances = population.rates(rng, tasks)
        yield Suite((rng.random((tasks, runs)) < chances[:, None]).astype(float), population.mean, float(chances.mean()))


def pairs(rng: np.random.Generator, count: int, tasks: int, runs: int) -> Iterator[tuple[Array, Array, float]]:
    """Shares of two policies on the same tasks and the true difference; the second has the first's rate at some tasks."""
    for _ in range(count):
        (one, other), alike, same = rng.uniform(*RATES, 2), rng.uniform(*ALIKE), rng.uniform(0.2, 0.8)
        first = Population(one, alike).rates(rng, tasks)
        second = np.where(rng.random(tasks) < same, first, Population(other, alike).rates(rng, tasks))
        yield rng.binomial(runs, first) / runs, rng.binomial(runs, second) / runs, float((1 - same) * (other - one))


# --- the usual formulas --------------------------------------------------------------------------


def wald(solved: Array) -> Interval:
    """Every attempt an independent trial: p +- 1.96 sqrt(p (1 - p) / attempts)."""
    return _around(float(solved.mean()), math.sqrt(float(solved.mean()) * (1 - float(solved.mean())) / solved.size))


def clustered(shares: Array) -> Interval:
    """mean +- 1.96 errors over tasks."""
    return _around(float(shares.mean()), float(shares.std(ddof=1)) / math.sqrt(len(shares)))


def usual_over_runs(solved: Array) -> Interval:
    """mean +- 1.96 errors over runs."""
    means = solved.mean(axis=0)
    return _around(float(means.mean()), float(means.std(ddof=1)) / math.sqrt(len(means)))


def _around(mean: float, error: float) -> Interval:
    return mean - 1.959964 * error, mean + 1.959964 * error


# --- counting ------------------------------------------------------------------------------------


def holds(interval: Interval, truth: float) -> bool:
    return interval[0] - 1e-12 <= truth <= interval[1] + 1e-12


def ours_over_runs(solved: Array) -> Interval:
    found = over_runs(solved.astype(bool).tolist())
    return found.low, found.high


def over_all_tasks(rng: np.random.Generator, count: int, tasks: int, runs: int, fixed: Population | None = None) -> dict[str, float]:
    """Coverage of the mean over all tasks of the kind, in percent."""
    methods: dict[str, Callable[[Suite], Interval]] = {
        "wald": lambda suite: wald(suite.solved),
        "clustered": lambda suite: clustered(suite.shares),
        "ours": lambda suite: wilson(suite.shares, suite.solved.shape[1]),
    }
    hits = dict.fromkeys(methods, 0)
    for suite in suites(rng, count, tasks, runs, fixed):
        for name, method in methods.items():
            hits[name] += holds(method(suite), suite.truth)
    return {name: 100 * found / count for name, found in hits.items()}


def over_these_tasks(rng: np.random.Generator, count: int, tasks: int, runs: int) -> dict[str, float]:
    """Coverage of the mean over the very tasks that were tried, in percent."""
    hits = {"usual": 0, "ours": 0}
    for suite in suites(rng, count, tasks, runs):
        hits["usual"] += holds(usual_over_runs(suite.solved), suite.here)
        hits["ours"] += holds(ours_over_runs(suite.solved), suite.here)
    return {name: 100 * found / count for name, found in hits.items()}


def over_pairs(rng: np.random.Generator, count: int, tasks: int, runs: int) -> dict[str, float]:
    """Coverage of the difference between two policies, in percent."""
    hits = {"clustered": 0, "ours": 0}
    for first, second, truth in pairs(rng, count, tasks, runs):
        hits["clustered"] += holds(clustered(second - first), truth)
        hits["ours"] += holds(between(first, second), truth)
    return {name: 100 * found / count for name, found in hits.items()}


def main() -> None:
    asked = parser(__doc__)
    asked.add_argument("--suites", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    rng = np.random.default_rng(given.seed)
    cells = [(tasks, runs) for tasks in TASKS for runs in RUNS]
    repeated = [(tasks, runs) for tasks, runs in cells if runs > 1]
    told = {
        "all tasks": {f"{n} x {r}": over_all_tasks(rng, given.suites, n, r) for n, r in cells},
        "these tasks": {f"{n} x {r}": over_these_tasks(rng, given.suites, n, r) for n, r in repeated},
        "differences": {f"{n} x {r}": over_pairs(rng, given.suites, n, r) for n, r in cells},
        "hard": {
            f"{name}, {n} x {r}": over_all_tasks(rng, given.suites, n, r, fixed)
            for name, fixed in HARD.items()
            for n, r in ((50, 1), (50, 10), (500, 1), (500, 10))
        },
    }
    for title, table in told.items():
        print(f"\n{title}")
        for name, found in table.items():
            print(f"  {name:<38}" + "  ".join(f"{method} {share:6.2f}" for method, share in found.items()))
        for method in next(iter(table.values())):
            print(f"  together, {method}: {np.mean([found[method] for found in table.values()]):.2f}")
    tell({"suites": given.suites, "seed": given.seed, **told})


if __name__ == "__main__":
    main()
