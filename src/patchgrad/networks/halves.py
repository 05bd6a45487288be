"""Numbers in `bfloat16`, the upper halves of those in `float32`: NumPy has no such type, and torch's conversions are calls of their own.

Between two products of a sampler's step lie a hundred thousand numbers, which one core rounds in the time that it takes to wake another.

`half` is compiled into `attention_rounded.py`: whoever changes it changes the text of that file as well (`lanes.py` says why).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor

from patchgrad.networks.lanes import Floats

Halves = npt.NDArray[np.uint16]
Bits = npt.NDArray[np.uint32]


def narrow(rows: Floats, count: int) -> Tensor:
    """Rows in `bfloat16`, rounded to the nearest, with rows of zeros behind the last so that there are so many: `[R, N] -> [count, N]`."""
    out = np.empty((count, rows.shape[1]), np.uint16)
    _narrow(np.ascontiguousarray(rows).view(np.uint32), out)
    return torch.from_numpy(out).view(torch.bfloat16)


def widen(rows: Tensor) -> Floats:
    """Rows in `bfloat16` as `float32`, which changes none."""
    out = np.empty(tuple(rows.shape), np.uint32)
    _widen(rows.view(torch.uint16).numpy(), out)
    return out.view(np.float32)


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def half(bits: np.uint32) -> np.uint16:
    """The upper half of a number, which of two that are as near is the even one; of what is no number another that is none."""
    near = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    none = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.uint16(none if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000) else near)


@njit(cache=True, error_model="numpy")
def _narrow(rows: Bits, out: Halves) -> None:
    count, size = rows.shape
    for n in range(count):
        for d in range(size):
            out[n, d] = half(rows[n, d])
    out[count:] = np.uint16(0)


@njit(cache=True, error_model="numpy")
def _widen(rows: Halves, out: Bits) -> None:
    count, size = rows.shape
    for n in range(count):
        for d in range(size):
            out[n, d] = np.uint32(rows[n, d]) << np.uint32(16)
