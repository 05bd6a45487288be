"""Products for sampling: each row has its own bits, in blocks, in `bfloat16`, and where only likely tokens are exact."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.networks import products
from patchgrad.networks.likely import MARGIN, MOST, Likely, logits
from patchgrad.networks.products import blocks, product
from patchgrad.networks.rounding import Precision

PRECISIONS: list[Precision] = ["float32", "bfloat16"]


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((192, 1024), (192, 1024)),  # a cache holds it
        ((576, 3072), (6, 576, 512)),
        ((576, 960), (2, 576, 480)),
        ((1536, 576), (2, 1536, 288)),
        ((576, 49152), (96, 576, 512)),
        ((1024, 151936), (1187, 1024, 128)),
        ((576, 1009), (576, 1009)),  # a prime
    ],
)
def test_a_large_matrix_lies_in_blocks_of_its_columns(shape: tuple[int, int], found: tuple[int, ...]) -> None:
    matrix = torch.arange(shape[1]).float().expand(shape)
    made = blocks(matrix)
    assert tuple(made.shape) == found
    assert made.is_contiguous()
    assert torch.equal(made.transpose(0, 1).flatten(1) if made.dim() == 3 else made, matrix)


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=30, deadline=None)
@given(
    inner=st.sampled_from([8, 40, 192, 576, 1536]),
    columns=st.sampled_from([24, 320, 576, 1009]),
    rows=st.lists(st.integers(1, 300), min_size=1, max_size=4),
)
def test_a_row_has_its_own_bits_however_many_there_are(precision: Precision, inner: int, columns: int, rows: list[int]) -> None:
    if products.alike(precision) is None:
        pytest.skip("this machine's products depend on how many rows they have")
    random = torch.Generator().manual_seed(0)
    multiply = product(torch.randn(columns, inner, generator=random), precision)
    whole = torch.randn(300, inner, generator=random).numpy()
    expected = multiply(whole)
    for count in rows:
        assert np.array_equal(multiply(whole[-count:]), expected[-count:])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_product_is_one(precision: Precision) -> None:
    random = torch.Generator().manual_seed(0)
    matrix, rows = torch.randn(600, 500, generator=random), torch.randn(7, 500, generator=random)
    found, true = torch.from_numpy(product(matrix, precision)(rows.numpy())), rows.double() @ matrix.t().double()
    assert found.shape == true.shape
    assert (found - true).abs().max() < (1e-3 if precision == "float32" else 0.6)
    assert torch.linalg.vector_norm(found - true) / torch.linalg.vector_norm(true) < (1e-6 if precision == "float32" else 4e-3)


def test_a_product_keeps_nothing_of_the_matrix_that_it_was_given() -> None:
    for precision in PRECISIONS:
        matrix, rows = torch.ones(300, 40), np.ones((5, 40), np.float32)
        multiply = product(matrix, precision)
        matrix.zero_()
        assert np.array_equal(multiply(rows), np.full((5, 300), 40, np.float32))


def test_where_torch_cannot_lay_a_matrix_out_the_product_is_the_same() -> None:
    matrix, rows = torch.randn(64, 48), torch.randn(9, 48).numpy()
    plain = products._rounded(rows, matrix.bfloat16(), (4, 1))
    assert np.array_equal(products._rounded(rows, products.packed(matrix), (4, 1)), plain)


@pytest.mark.parametrize(("wanted", "bound", "found"), [("float32", "ALL", "float32"), ("bfloat16", "AVX2", "float32")])
def test_a_processor_that_does_not_multiply_halves_samples_in_float32(wanted: str, bound: str, found: str) -> None:
    asked = f"from patchgrad.networks.products import supported; print(supported({wanted!r}))"
    around = {**os.environ, "ONEDNN_MAX_CPU_ISA": bound}
    assert subprocess.run([sys.executable, "-c", asked], env=around, capture_output=True, text=True, check=True).stdout.strip() == found


def test_the_logits_of_likely_tokens_are_exact_and_those_of_others_are_rounded() -> None:
    random = torch.Generator().manual_seed(0)
    head, rows = torch.randn(4000, 64, generator=random), torch.randn(6, 64, generator=random).numpy()
    found, whole = logits(head, "bfloat16"), logits(head, "float32")(rows)
    assert isinstance(found, Likely)
    told, rounded = found(rows), found.rounded(rows)
    likely = rounded >= rounded.max(1, keepdims=True) - MARGIN
    assert 0 < likely.sum() < likely.size / 2
    assert np.abs(told - whole)[likely].max() < 1e-4 < np.abs(rounded - whole)[likely].max()
    assert np.array_equal(told[~likely], rounded[~likely])


def test_where_all_tokens_are_alike_only_the_nearest_are_exact() -> None:
    random = torch.Generator().manual_seed(0)
    head, rows = 0.01 * torch.randn(4000, 64, generator=random), torch.randn(3, 64, generator=random).numpy()
    found = logits(head, "bfloat16")
    assert isinstance(found, Likely)
    told, rounded, whole = found(rows), found.rounded(rows), logits(head, "float32")(rows)
    exact = np.abs(told - whole) < 1e-6
    assert (exact.sum(1) > 20).all()
    assert ((told != rounded).sum(1) <= MOST).all()
    assert np.array_equal(found(np.zeros((1, 64), np.float32)), np.zeros((1, 4000), np.float32)), "all are the largest"


def test_a_head_that_is_not_finite_gives_logits_that_are_not() -> None:
    head = torch.ones(40, 8)
    head[7] = torch.nan
    assert np.isnan(logits(head, "bfloat16")(np.ones((2, 8), np.float32))).any(axis=1).all()
