"""When a warm-up ends."""

from __future__ import annotations

import random
from statistics import fmean

from patchgrad.evaluation import over_tasks
from patchgrad.runs.phases.base_policy import reached
from patchgrad.values import Estimate


def test_a_share_is_reached_when_it_is_passed_by_a_standard_error() -> None:
    assert reached(Estimate(0.13, 0.02), 0.1)
    assert not reached(Estimate(0.11, 0.02), 0.1)
    assert not reached(Estimate(0.05, 0.0), 0.1)


def test_five_measurements_of_a_policy_below_the_share_seldom_end_its_warm_up() -> None:
    chance = random.Random(1)

    def measured(skill: float) -> Estimate:
        return over_tasks([fmean(chance.random() < skill for _ in range(2)) for _ in range(64)])

    lucky = fmean(any(reached(measured(0.06), 0.1) for _ in range(5)) for _ in range(400))
    by_the_mean_alone = fmean(any(measured(0.06).mean >= 0.1 for _ in range(5)) for _ in range(400))
    assert lucky < 0.1 < by_the_mean_alone
