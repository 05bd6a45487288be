"""Figures over several seeds of one recipe."""

from __future__ import annotations

import math

import pytest
from tests.viewer.synthetic import policy

from patchgrad.errors import ConfigError
from patchgrad.evaluation import over_seeds, pooled


def test_the_error_is_that_of_a_mean_of_seeds_and_its_interval_student_s() -> None:
    found = over_seeds([0.456, 0.430, 0.309])
    assert found.mean == pytest.approx(0.398333, abs=1e-6)
    assert found.error == pytest.approx(0.045293, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((0.398333 - 4.302653 * 0.045293, 0.398333 + 4.302653 * 0.045293), abs=1e-5)
    assert over_seeds([0.2, 0.4]).high == pytest.approx(0.3 + 12.7062 * 0.1, abs=1e-4)


def test_one_seed_has_no_error() -> None:
    assert over_seeds([0.5]).mean == 0.5
    assert math.isnan(over_seeds([0.5]).error)


def test_pairs_are_tasks_of_seeds() -> None:
    low, high = (policy("p", share, 0.7, 0.9, 6.0, 2.0) for share in (0.25, 0.5))
    found = pooled({1: low, 2: low}, {1: high, 2: low})
    assert found.tasks == 400
    assert found.difference.mean == pytest.approx(0.125)
    with pytest.raises(ConfigError, match="same seeds"):
        pooled({1: low}, {2: low})
