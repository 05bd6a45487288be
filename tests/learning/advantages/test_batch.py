"""Advantages over all groups of an iteration."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.learning.advantages import whitened
from patchgrad.values import Bools, Floats, floats

parts = st.lists(st.lists(st.tuples(st.floats(-2, 2, width=16), st.booleans()), min_size=1, max_size=6), min_size=1, max_size=5)


def halves(given_: list[list[tuple[float, bool]]]) -> tuple[list[Floats], list[Bools]]:
    return [floats([value for value, _ in part]) for part in given_], [np.array([kept for _, kept in part]) for part in given_]


def test_ones_and_zeros_become_one_and_minus_one() -> None:
    assert [part.tolist() for part in whitened([floats([1, 1]), floats([0, 0])], [np.ones(2, bool)] * 2)] == [[1, 1], [-1, -1]]


@given(parts)
def test_kept_tokens_have_a_mean_of_0_and_a_deviation_of_1(given_: list[list[tuple[float, bool]]]) -> None:
    advantages, kept = halves(given_)
    found = whitened(advantages, kept)
    values = np.concatenate([part[keep] for part, keep in zip(found, kept, strict=True)])
    before = np.concatenate([part[keep] for part, keep in zip(advantages, kept, strict=True)])
    assert [len(part) for part in found] == [len(part) for part in advantages]
    if len(before) and np.ptp(before) > 0.01:
        assert abs(values.mean()) < 1e-4
        assert abs(values.std() - 1) < 1e-2
        assert (np.argsort(before, kind="stable") == np.argsort(values, kind="stable")).all()


@given(parts)
def test_what_is_not_kept_moves_nothing(given_: list[list[tuple[float, bool]]]) -> None:
    advantages, kept = halves(given_)
    other = [floats(np.where(keep, part, 9.0)) for part, keep in zip(advantages, kept, strict=True)]
    for one, two, keep in zip(whitened(advantages, kept), whitened(other, kept), kept, strict=True):
        assert (one[keep] == two[keep]).all()


def test_where_all_are_equal_or_there_are_none_nothing_is_learned() -> None:
    assert not whitened([floats([0.3, 0.3]), floats([0.3])], [np.ones(2, bool), np.ones(1, bool)])[0].any()
    assert not whitened([floats([0.3, 0.1])], [np.zeros(2, bool)])[0].any()
    assert whitened([], []) == []
