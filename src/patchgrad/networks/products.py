"""Products of rows with a matrix that stays, for sampling: a row's sum has the same bits, however many rows there are.

In `float32` a matrix product of MKL's on one thread adds up a row's terms in one order where it has as many rows as `alike` finds out. A
large matrix lies in blocks of columns, each of which a product of few rows reads without repacking all of it, on whichever thread. In
`bfloat16`, where the processor has instructions for it, matrix and rows are rounded, sums are made in `float32`, and what they come to is
rounded again; a matrix lies as oneDNN's kernels read it, which else would arrange it anew for each product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchgrad.networks.halves import narrow, widen
from patchgrad.networks.lanes import Floats
from patchgrad.networks.rounding import Precision, multiplies_bfloat16
from patchgrad.networks.threads import one_thread

Rows = tuple[int, int]
ALIKE: tuple[Rows, ...] = ((4, 1), (8, 4), (16, 16))
"""What numbers of rows may be alike: at least so many, and a multiple of so many."""
LARGE, WIDTH = 1 << 18, 512
"""From so many numbers on a matrix lies in blocks of at most so many columns; below that a cache holds it, and one product is fastest."""
COUNTS = (*range(1, 34), 63, 100, 150)  # of rows, of which products are compared
INNER = (64, 256, 768, 1536)  # of columns, over which their sums are made
STEPS = ((64, 4), (256, 16), (4096, 128))  # up to so many rows a rounded product has a multiple of so many: each shape is compiled once


class Product(Protocol):
    """The product of rows with a matrix that it holds: `[R, N] -> [R, M]`."""

    def __call__(self, rows: Floats, /) -> Floats: ...


@dataclass(frozen=True, slots=True)
class Exact:
    """In `float32`, by the `blocks` of a matrix `[N, M]`. One thread multiplies a block, so how many there are changes nothing."""

    matrix: Tensor

    def __call__(self, rows: Floats) -> Floats:
        return _multiplied(rows, self.matrix, alike("float32") or ALIKE[0])


@dataclass(frozen=True, slots=True)
class Rounded:
    """In `bfloat16`, by a matrix `[M, N]` that is `packed`."""

    matrix: Tensor

    def __call__(self, rows: Floats) -> Floats:
        return _rounded(rows, self.matrix, alike("bfloat16") or ALIKE[0])


def product(matrix: Tensor, precision: Precision) -> Product:
    """That of rows `[R, N]` with a matrix `[M, N]` as a linear layer has it, which is copied."""
    if precision == "bfloat16":
        return Rounded(packed(matrix))
    return Exact(blocks(matrix.float().t()))


def supported(wanted: Precision) -> Precision:
    """The precision that is sampled in on this CPU: `bfloat16` where it is faster and gives the same bits for any number of rows."""
    return "bfloat16" if wanted == "bfloat16" and multiplies_bfloat16() and alike("bfloat16") else "float32"


def exact() -> bool:
    """Do products on this machine, on one thread, add up a row's terms in one order, however many rows there are?"""
    return alike("float32") is not None


@cache
def alike(precision: Precision) -> Rows | None:
    """The least of `ALIKE` with which a row's terms are added up in one order, or `None`.

    With `(8, 4)` the rows of a product are filled up to 8, 12, 16 and so on. MKL's kernels for the instructions that all processors have
    need that, and newer ones `(4, 1)`.
    """
    random = torch.Generator().manual_seed(0)
    multiplied = _multiplied if precision == "float32" else _rounded
    pairs = [(torch.randn(150, inner, generator=random).numpy(), torch.randn(inner, 512, generator=random)) for inner in INNER]
    if precision == "bfloat16":
        pairs = [(left, packed(right.t())) for left, right in pairs]
    with one_thread():
        return next((rows for rows in ALIKE if all(_agree(multiplied, left, right, rows) for left, right in pairs)), None)


def _agree(multiplied: Callable[[Floats, Tensor, Rows], Floats], left: Floats, right: Tensor, rows: Rows) -> bool:
    whole = multiplied(left, right, rows)
    return all(np.array_equal(multiplied(left[:count], right, rows), whole[:count]) for count in COUNTS)


def blocks(matrix: Tensor) -> Tensor:
    """A matrix `[N, M]` as it is, or a large one as blocks of its columns, `[B, N, M / B]`.

    `[576, 3072]` becomes `[6, 576, 512]`. Where no width from a quarter of `WIDTH` to all of it divides the columns, it stays whole.
    """
    columns = matrix.shape[1]
    width = next((width for width in range(min(WIDTH, columns // 2), WIDTH // 4 - 1, -1) if columns % width == 0), columns)
    if matrix.numel() < LARGE or width == columns:
        return matrix.contiguous()
    return matrix.reshape(len(matrix), -1, width).transpose(0, 1).contiguous()


def packed(matrix: Tensor) -> Tensor:
    """A matrix `[M, N]` in `bfloat16`, laid out for oneDNN where this torch can."""
    rounded = matrix.to(torch.bfloat16, copy=True).contiguous()
    try:
        reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(rounded)
    except (AttributeError, RuntimeError):  # of another build
        return rounded
    return reordered


def _multiplied(left: Floats, right: Tensor, alike: Rows) -> Floats:
    """`[R, N] @ [N, M]`, or by blocks, of as many rows as are alike."""
    count = len(left)
    if more := _alike(count, *alike) - count:
        left = np.concatenate([left, np.zeros((more, left.shape[1]), np.float32)])
    if right.dim() == 2:
        return torch.mm(torch.from_numpy(left), right).numpy()[:count]
    parts = torch.bmm(torch.from_numpy(left).expand(len(right), *left.shape), right)
    return parts.transpose(0, 1).flatten(1).numpy()[:count]


def _rounded(left: Floats, right: Tensor, alike: Rows) -> Floats:
    """`[R, N] @ [M, N].T` in `bfloat16`, of as many rows as are alike; the matrix may be `packed`."""
    count, (least, multiple) = len(left), alike
    step = next((step for most, step in STEPS if count <= most), STEPS[-1][1])
    rows = narrow(left, _alike(count, least, max(multiple, step)))
    linear = torch.ops.mkldnn._linear_pointwise(rows, right, None, "none", [], "") if right.is_mkldnn else F.linear(rows, right)
    return widen(linear[:count])


def _alike(count: int, least: int, multiple: int) -> int:
    """So many rows, or more: at least as many, and a multiple."""
    return max(least, -(-count // multiple) * multiple)
