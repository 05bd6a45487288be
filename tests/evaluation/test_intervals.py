"""Intervals against tables, invariances, and what they are for: to hold the truth as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.evaluation.calibration import over_all_tasks, over_pairs, over_these_tasks
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.evaluation import between, repeated, wilson
from patchgrad.evaluation.intervals import student

SHARES = st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=2, max_size=30)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (30, 2.04227), (120, 1.97993), (1000, 1.96234)],
)
def test_students_t_is_that_of_the_tables(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, abs=2e-5)


def test_students_t_goes_on_smoothly_where_it_is_approximated() -> None:
    assert student(200) > student(201) > student(202)
    assert student(200) - student(201) == pytest.approx(student(201) - student(202), rel=0.05)


def test_one_attempt_a_task_gives_wilsons_own_interval() -> None:
    assert wilson([1.0] * 81 + [0.0] * 182) == pytest.approx((0.2553, 0.3662), abs=5e-5)  # Newcombe 1998, table I: 81 of 263
    assert wilson([0.0] * 20) == pytest.approx((0.0, 0.1611), abs=5e-5)  # ibid., 0 of 20
    assert wilson([1.0] * 8 + [0.0] * 2) == wilson([1.0] * 8 + [0.0] * 2, attempts=5)


def test_paired_yes_and_no_give_newcombes_interval() -> None:
    """Newcombe 1998 (paired), table II, example a: 36, 12, 2, 0 of 50 pairs; method 8."""
    first = [1.0] * 48 + [0.0] * 2
    second = [1.0] * 36 + [0.0] * 12 + [1.0] * 2
    low, high = between(second, first)
    assert (low, high) == pytest.approx((0.0569, 0.3404), abs=2e-4)


@given(SHARES, st.integers(0, 12))
def test_an_interval_holds_its_mean_and_stays_within_what_shares_can_be(shares: list[float], attempts: int) -> None:
    low, high = wilson(shares, attempts)
    assert -1e-9 <= low <= np.mean(shares) + 1e-9
    assert np.mean(shares) - 1e-9 <= high <= 1 + 1e-9


@given(SHARES)
def test_failures_and_successes_are_treated_alike(shares: list[float]) -> None:
    low, high = wilson(shares)
    mirrored = wilson([1 - share for share in shares])
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: (pair[0] / 20, pair[1] / 20)), min_size=2, max_size=20))
def test_a_difference_the_other_way_round_is_mirrored(pairs: list[tuple[float, float]]) -> None:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    low, high = between(first, second)
    assert between(second, first) == pytest.approx((-high, -low), abs=1e-6)
    assert low - 1e-9 <= np.mean(second) - np.mean(first) <= high + 1e-9


def test_pairs_that_go_together_are_told_apart_more_sharply_than_strangers() -> None:
    rng = np.random.default_rng(3)
    skill = rng.beta(0.5, 1, 200)
    gained = np.minimum(1, skill + 0.05)
    low, high = between(skill, gained)
    apart_low, apart_high = between(skill, rng.permutation(gained))
    assert high - low < (apart_high - apart_low) / 3


def test_one_task_says_little_and_none_says_nothing() -> None:
    assert wilson([1.0]) == pytest.approx((0.2065, 1.0), abs=1e-4)
    assert all(math.isnan(end) for interval in (wilson([0.5]), wilson([]), between([], []), repeated([(1, 1)])) for end in interval)
    assert wilson([0.5, 0.5]) == pytest.approx(wilson([1.0, 0.0]), abs=0.4)  # tasks that agree by chance do not make it a point


@given(st.lists(st.integers(0, 5), min_size=2, max_size=20))
def test_more_runs_of_the_same_kind_narrow_only_what_runs_can_narrow(solved: list[int]) -> None:
    few, many = repeated([(c, 5) for c in solved]), repeated([(100 * c, 500) for c in solved])
    assert many[1] - many[0] <= few[1] - few[0] + 1e-9
    assert many[0] - 1e-9 <= np.mean(solved) / 5 <= many[1] + 1e-9


@pytest.mark.parametrize(("tasks", "runs"), [(40, 1), (40, 5), (100, 2), (100, 10)])
def test_few_and_many_tasks_and_runs_are_covered(tasks: int, runs: int) -> None:
    """A smaller draw of docs/studies/calibration.md: 1,500 suites have an error of 0.6 points."""
    rng = np.random.default_rng(tasks + runs)
    found = over_all_tasks(rng, 1500, tasks, runs)
    assert 93.2 <= found["ours"] <= 96.8
    assert found["wald"] < found["ours"]
    assert runs == 1 or found["wald"] < 92


def test_the_error_over_runs_covers_these_tasks_where_the_usual_formula_does_not() -> None:
    found = over_these_tasks(np.random.default_rng(0), 1500, 60, 5)
    assert 93.5 <= found["ours"] <= 97
    assert found["usual"] < 90


def test_differences_are_covered() -> None:
    assert 93.2 <= over_pairs(np.random.default_rng(1), 1500, 60, 2)["ours"] <= 96.8
