"""The same recipe trained from several seeds: what its policies solve in the mean, and how far that reaches beyond these seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from patchgrad.errors import ConfigError
from patchgrad.evaluation.comparing import Comparison, compare
from patchgrad.evaluation.intervals import student
from patchgrad.evaluation.summary import outcomes_of, shares
from patchgrad.values import Estimate, Report


def over_seeds(values: Sequence[float]) -> Estimate:
    """Mean, its error over seeds, and Student's interval: `over_seeds([0.2, 0.4])` -> 0.3 with an error of 0.1, and -0.97 to 1.57.

    With few seeds the interval is wide, as it should be: three seeds say little of a fourth. An error needs two.
    """
    found = np.array(values, np.float64)
    if len(found) < 2:
        return Estimate(float(found.mean()) if len(found) else math.nan, math.nan)
    mean, error = float(found.mean()), float(found.std(ddof=1)) / math.sqrt(len(found))
    reach = student(len(found) - 1) * error
    return Estimate(mean, error, mean - reach, mean + reach)


def pooled(first: Mapping[int, Report], second: Mapping[int, Report]) -> Comparison:
    """Second minus first, paired by seed and task: a pair is one task of one seed's run.

    It says whether these runs differ by more than their attempts' luck. What another seed would do is `over_seeds`'s question.
    """
    if set(first) != set(second) or not first:
        raise ConfigError("A paired comparison needs the same seeds on both sides.")
    if any(set(outcomes_of(first[seed])) != set(outcomes_of(second[seed])) for seed in first):
        raise ConfigError("A paired comparison needs the same tasks on both sides; evaluate both on one task set.")
    one, other = (
        {(seed, task): share for seed, report in side.items() for task, share in shares(report).items()} for side in (first, second)
    )
    both = one.keys() & other.keys()  # without tasks at which every attempt of one side broke
    return compare({f"{seed} {task}": one[seed, task] for seed, task in both}, {f"{seed} {task}": other[seed, task] for seed, task in both})
