from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from patchgrad.networks.halves import narrow, widen

ANY = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(1, 40)), elements=ANY), st.integers(0, 3))
def test_numbers_are_rounded_as_torch_rounds_them_and_rows_of_zeros_stand_behind(rows: np.ndarray, more: int) -> None:
    found = narrow(rows, len(rows) + more)
    assert torch.equal(found[: len(rows)].float().nan_to_num(7.0), torch.from_numpy(rows).bfloat16().float().nan_to_num(7.0))
    assert torch.equal(found[: len(rows)].isnan(), torch.from_numpy(rows).isnan())
    assert not found[len(rows) :].any()


@given(arrays(np.uint16, (3, 17)))
def test_every_half_becomes_wide_as_it_is(halves: np.ndarray) -> None:
    rows = torch.from_numpy(halves).view(torch.bfloat16)
    assert np.array_equal(widen(rows), rows.float().numpy(), equal_nan=True)


def test_columns_that_are_not_neighbours_are_taken_as_they_are() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]
    assert np.array_equal(widen(narrow(rows, 3)), rows)
