"""A plan is right when evaluations made by it see the difference as often as it promised."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.attempts import report

from patchgrad.errors import ConfigError
from patchgrad.evaluation import compare, plan
from patchgrad.evaluation.sample_size import assumed_noise, even_and_concentrated, noise_of, spread_of

Rates = npt.NDArray[np.float64]


def seen(first: Rates, second: Rates, runs: int, trials: int, seed: int) -> float:
    """How often a paired comparison finds these two apart."""
    rng, hits = np.random.default_rng(seed), 0
    for trial in range(trials):
        one, other = (dict(zip(map(str, range(len(p))), rng.binomial(runs, p) / runs, strict=True)) for p in (first, second))
        hits += compare(one, other, trial).p_value < 0.05
    return hits / trials


def test_an_even_gain_is_seen_as_often_as_planned() -> None:
    rates = np.linspace(0.1, 0.8, 60)
    better = rates + 0.08
    noise = float(np.mean(rates * (1 - rates) + better * (1 - better)))
    found = plan(0.08, 60, noise)
    assert found.runs == 9
    assert 0.7 <= seen(rates, better, found.runs, 100, 0) <= 0.92


def test_a_gain_that_few_tasks_carry_needs_the_tasks_first() -> None:
    """Of 80 tasks 12 go from never to always: no run adds anything, and that many tasks are needed."""
    even, concentrated = even_and_concentrated(0.15, 40, assumed_noise(0.3))
    assert even.runs is not None
    assert concentrated.runs is None
    assert concentrated.least == math.floor(0.15 * 0.85 * (2.8016 / 0.15) ** 2) + 1
    assert plan(0.15, concentrated.least, 0.01, concentrated.spread).runs is not None


def test_a_report_tells_the_noise_and_a_pilot_of_both_the_spread() -> None:
    rng = np.random.default_rng(5)
    first = rng.beta(1, 1, 1000)
    second = np.clip(first + np.where(rng.random(1000) < 0.5, 0.2, 0.0), 0, 1)
    one, other = (report(name, (rng.random((1000, 4)) < p[:, None]).tolist()) for name, p in (("a", first), ("b", second)))
    assert noise_of([one, other]) == pytest.approx(np.mean(first * (1 - first)) + np.mean(second * (1 - second)), abs=0.03)
    assert noise_of([one]) == pytest.approx(2 * np.mean(first * (1 - first)), abs=0.03)
    assert spread_of(one, other) == pytest.approx((second - first).std(), abs=0.04)


@given(st.floats(0.01, 0.3), st.integers(20, 2000), st.floats(0.01, 0.5))
def test_more_tasks_need_fewer_runs_and_a_smaller_difference_more(difference: float, tasks: int, noise: float) -> None:
    found = plan(difference, tasks, noise).runs
    assert found is not None
    assert (plan(difference, 2 * tasks, noise).runs or 0) <= found <= (plan(difference / 2, tasks, noise).runs or 0)
    assert found <= (plan(difference, tasks, noise, power=0.95).runs or 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 100, 0.1), "A difference of 0 points"),
        ((0.1, 1, 0.1), "at least 2 tasks"),
        ((0.1, 100, math.nan), "a report with two runs, or a solve rate"),
        ((0.1, 100, 0.1, 0.0, 1.0), "A power of 1 is no plan"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: tuple[float, int, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(*arguments)


def test_a_spread_needs_two_tasks_in_common() -> None:
    with pytest.raises(ConfigError, match="a and b share 1 tasks"):
        spread_of(report("a", [[True, False]]), report("b", [[True, False]]))
