"""The logits of a vocabulary: a product in `bfloat16` tells which tokens are likely, and the logits of those are computed in `float32`.

A logit of 20 that is rounded to `bfloat16` is off by up to 0.06, whatever it was made from, and so is a token's log-probability. With a
vocabulary of 49,152 a product with the head takes a fifth of a token's time or more, and only few tokens are ever likely.

Axes: R rows, V vocabulary, d hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

from numba import njit
from torch import Tensor

from patchgrad.networks.lanes import FASTER, F, Floats
from patchgrad.networks.products import Product, product
from patchgrad.networks.rounding import Precision

MARGIN = F(8)  # a token whose logit is so much less than the largest has a chance of less than 0.0004
MOST = 512  # tokens of a row; where more are as near, half the margin is asked, and so on


@dataclass(frozen=True, slots=True)
class Likely:
    """The product of rows with a head `[V, d]`: `[R, d] -> [R, V]`, exact where a logit is no further than `MARGIN` from the largest, and
    where no more than `MOST` are."""

    rounded: Product
    matrix: Floats

    def __call__(self, rows: Floats) -> Floats:
        logits = self.rounded(rows)
        _refine(rows, self.matrix, logits)
        return logits


def logits(head: Tensor, precision: Precision) -> Product:
    """That of rows with a head, which is copied."""
    whole = product(head, precision)
    return whole if precision == "float32" else Likely(whole, head.float().clone().numpy())


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy")
def _refine(rows: Floats, matrix: Floats, logits: Floats) -> None:
    count, size = rows.shape
    for n in range(count):
        largest = logits[n, 0]
        for token in range(1, len(matrix)):
            largest = max(largest, logits[n, token])
        least, margin, near = largest, MARGIN, MOST + 1
        while near > MOST and margin > F(1e-3):
            near = 0
            for token in range(len(matrix)):
                near += logits[n, token] >= largest - margin
            least, margin = largest - margin, margin / F(2)
        for token in range(len(matrix)):
            if logits[n, token] >= least:
                total = F(0)
                for d in range(size):
                    total += rows[n, d] * matrix[token, d]
                logits[n, token] = total
