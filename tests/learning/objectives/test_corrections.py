"""What a mismatch of sampler and trainer does to a token's weight."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.contracts import Correction
from patchgrad.learning.objectives.corrections import MaskGeometric, MaskSequence, MaskToken, Together, TruncateSequence, TruncateToken
from patchgrad.values import Floats, floats

PARTS: list[Correction] = [TruncateToken(), TruncateSequence(), MaskToken(), MaskSequence(), MaskGeometric(0.9, 1.1)]
ratios = st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=6).map(floats)
EVERY = pytest.mark.parametrize("correction", [*PARTS, Together(tuple(PARTS)), Together(())], ids=str)
UP, DOWN, FAR = math.log(1.5), math.log(0.8), math.log(4.0)


@pytest.mark.parametrize(
    ("correction", "factors", "bounded"),
    [
        (TruncateToken(2.0), [1.5, 0.8, 2.0], [False, False, True]),
        (TruncateSequence(3.0), [3.0, 3.0, 3.0], [True, True, True]),
        (TruncateSequence(5.0), [4.8, 4.8, 4.8], [False, False, False]),
        (MaskToken(0.9, 2.0), [1.0, 0.0, 0.0], [False, True, True]),
        (MaskSequence(0.0, 3.0), [0.0, 0.0, 0.0], [True, True, True]),
        (MaskSequence(0.5, 5.0), [1.0, 1.0, 1.0], [False, False, False]),
        (MaskGeometric(0.5, 1.6), [0.0, 0.0, 0.0], [True, True, True]),  # the third root of 4.8 is 1.687
        (MaskGeometric(0.5, 1.7), [1.0, 1.0, 1.0], [False, False, False]),
        (Together((MaskToken(0.5, 2.0), TruncateToken(2.0))), [1.5, 0.8, 0.0], [False, False, True]),
        (Together(()), [1.0, 1.0, 1.0], [False, False, False]),
    ],
    ids=str,
)
def test_factors_of_ratios_1_5_and_0_8_and_4(correction: Correction, factors: list[float], bounded: list[bool]) -> None:
    found, where = correction(floats([UP, DOWN, FAR]))
    assert found.tolist() == pytest.approx(factors, rel=1e-6)
    assert where.tolist() == bounded


@EVERY
@given(size=st.integers(1, 9))
def test_where_sampler_and_trainer_agree_nothing_changes(correction: Correction, size: int) -> None:
    factors, bounded = correction(floats(np.zeros(size)))
    assert factors.tolist() == [1.0] * size
    assert not bounded.any()


@EVERY
@given(given_=ratios)
def test_no_factor_is_more_than_the_caps_allow_or_less_than_nothing(correction: Correction, given_: Floats) -> None:
    factors, bounded = correction(given_)
    assert factors.dtype == np.float32
    assert ((factors >= 0) & (factors <= 4.0)).all()  # both truncations at their caps of 2
    assert bounded[factors == 0].all()


@EVERY
def test_a_ratio_beyond_any_float_has_a_factor(correction: Correction) -> None:
    factors, _ = correction(floats([-800.0, 800.0]))
    assert np.isfinite(factors).all()


@given(ratios, st.sampled_from(PARTS), st.sampled_from(PARTS))
def test_parts_multiply_in_any_order(given_: Floats, one: Correction, two: Correction) -> None:
    together, backwards = Together((one, two))(given_), Together((two, one))(given_)
    np.testing.assert_allclose(together[0], one(given_)[0] * two(given_)[0], rtol=1e-6)
    assert (together[0] == backwards[0]).all()
    assert (together[1] == (one(given_)[1] | two(given_)[1])).all()


def test_a_sequence_of_thousands_has_a_geometric_mean_and_no_product() -> None:
    drift = floats(np.full(5000, 0.0009))
    assert TruncateSequence(2.0)(drift)[0].tolist() == [2.0] * 5000
    assert not MaskSequence(0.0, 3.0)(drift)[0].any()
    assert MaskGeometric(0.999, 1.001)(drift)[0].all()
