"""How many runs until a difference is seen: Miller's power analysis (arXiv 2411.00640, "Adding Error Bars to Evals").

Both policies do R runs on N tasks. Their difference d on a task has, around its mean, a variance of `spread`^2 from task to task, which
no run makes smaller, and of `noise` / R from attempt to attempt, the sum of what the attempts of either policy at a task vary
(`figures.within`). A two-sided test at 5 % sees a mean difference with probability `power` if

    difference^2 >= (z_0.975 + z_power)^2 * (spread^2 + noise / R) / N

so R = noise / (N * (difference / (z_0.975 + z_power))^2 - spread^2), or no number of runs is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from patchgrad.errors import ConfigError
from patchgrad.evaluation.figures import within
from patchgrad.evaluation.intervals import NORMAL
from patchgrad.evaluation.summary import counts, outcomes_of, shares
from patchgrad.values import Report


@dataclass(frozen=True, slots=True)
class SampleSize:
    """What it takes to see `difference` on `tasks` tasks. `runs` are for each policy, `None` where no number of them is enough.

    `spread` is the deviation of the gain from task to task, `noise` that of attempts at one task, both policies together, as a variance.
    `least` tasks are needed however many runs are made.
    """

    difference: float
    tasks: int
    power: float
    noise: float
    spread: float
    runs: int | None
    least: int


def plan(difference: float, tasks: int, noise: float, spread: float = 0.0, power: float = 0.8) -> SampleSize:
    """The runs that `difference` needs: `plan(0.02, 500, noise=0.25)` -> 10 runs of each policy, if every task gains alike."""
    if not 0 < difference < 1:
        raise ConfigError(f"A difference of {100 * difference:g} points cannot be planned for: name one between 0 and 100.")
    if not 0.5 <= power < 1:
        raise ConfigError(f"A power of {power:g} is no plan: name the chance to see the difference, from 0.5 to below 1.")
    if tasks < 2 or not (noise >= 0 and spread >= 0):
        raise ConfigError("A plan needs at least 2 tasks, and how much attempts at a task differ: a report with two runs, or a solve rate.")
    unit = (difference / (NORMAL + NormalDist().inv_cdf(power))) ** 2
    left = tasks * unit - spread**2
    runs = max(1, math.ceil(noise / left - 1e-9)) if left > 0 else None
    return SampleSize(difference, tasks, power, noise, spread, runs, math.floor(spread**2 / unit) + 1)


def even_and_concentrated(difference: float, tasks: int, noise: float, power: float = 0.8) -> tuple[SampleSize, SampleSize]:
    """The two ends where nobody knows the spread: every task gains alike, or as many as the mean go from never to always."""
    return plan(difference, tasks, noise, 0.0, power), plan(difference, tasks, noise, math.sqrt(difference * (1 - difference)), power)


def noise_of(reports: Sequence[Report]) -> float:
    """How much attempts at one task differ, of two policies together; one report stands for both. `nan` without a second run."""
    found = [within(counts(report)) for report in reports]
    return sum(found) * (2 / len(found))


def assumed_noise(rate: float, alike: float = 0.5) -> float:
    """The same for two policies that solve this share, where `alike` is the correlation of attempts at one task.

    `2 rate (1 - rate) (1 - alike)`. From the errors over runs in Table 1 of arXiv 2508.03501, `alike` is 1 - error^2 runs tasks /
    (rate (1 - rate)); each of its thirty figures is rough, and the one in their middle 0.57.
    """
    return 2 * rate * (1 - rate) * (1 - alike)


def spread_of(first: Report, second: Report) -> float:
    """How much the gain differs from task to task, from a pilot of both: what their differences vary beyond their attempts' noise."""
    one, other = shares(first), shares(second)
    both = sorted(one.keys() & other.keys())
    if len(both) < 2:
        raise ConfigError(f"{first.name} and {second.name} share {len(both)} tasks: a spread needs two reports on one set.")
    total = float(np.var([other[task] - one[task] for task in both], ddof=1))
    noise = sum(within(counts(report)) * _per_attempt(report) for report in (first, second))
    return math.sqrt(max(0.0, total - noise))


def _per_attempt(report: Report) -> float:
    """The mean of one over a task's attempts."""
    attempts = [sum(won is not None for won in row) for row in outcomes_of(report).values()]
    return float(np.mean([1 / count for count in attempts if count]))
