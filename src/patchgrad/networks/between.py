"""What a layer does between two matrix products, compiled for the processor at hand: one pass over a row, and one call, for each.

Called one after the other from Python, a layer's norms, sums, rotations and gates take longer than its products while few streams draw.
These calls keep the interpreter's lock: they are short, and who lets go of it waits for it behind whatever else runs.

Each row is computed by itself, in one order, whichever rows are beside it. Quotients and roots are no estimates, which differ between
processors of two makers. In `turned` each pair of a head's dimensions is rotated, and a pair is two neighbours.

Axes: N tokens, T positions, H heads, K key-value heads, D head size, d hidden size.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from patchgrad.networks.lanes import FASTER, F, Floats, Places, Powers, exponential


def normed(x: Floats, epsilon: float) -> Floats:
    """Rows divided by their root mean square: `[N, d] -> [N, d]`."""
    out = np.empty_like(x)
    _normed(x, F(epsilon), out)
    return out


def added(x: Floats, more: Floats, epsilon: float) -> Floats:
    """Adds `more` to `x` in place; the sum's rows divided by their root mean square."""
    out = np.empty_like(x)
    _added(x, more, F(epsilon), out)
    return out


def gated(both: Floats) -> Floats:
    """silu of the first half of each row, times its second half: `[N, 2 F] -> [N, F]`."""
    out = np.empty((len(both), both.shape[1] // 2), np.float32)
    _gated(both, np.empty(out.shape[1], np.int32), out)
    return out


def turned(
    mixed: Floats, scale: Floats, cosines: Floats, sines: Floats, positions: Places, epsilon: float, heads: int, each: bool
) -> tuple[Floats, Floats, Floats]:
    """Queries `[N, H, D]`, keys and values `[N, K, D]` of `mixed` `[N, (H + 2 K) D]`: the first two scaled by `scale` `[H + K, D]` and
    rotated by the angles of their positions, `[T, D / 2]`; where `each` is true, a head is first divided by its root mean square."""
    count, size = len(mixed), scale.shape[1]
    kv_heads = len(scale) - heads
    q = np.empty((count, heads, size), np.float32)
    k, v = np.empty((2, count, kv_heads, size), np.float32)
    _turned(mixed, scale, cosines, sines, positions, F(epsilon), each, q, k, v)
    return q, k, v


@njit(cache=True, fastmath=FASTER, error_model="numpy")
def _normed(x: Floats, epsilon: np.float32, out: Floats) -> None:
    count, size = x.shape
    for n in range(count):
        squares = F(0)
        for d in range(size):
            squares += x[n, d] * x[n, d]
        share = F(1) / np.sqrt(squares / F(size) + epsilon)
        for d in range(size):
            out[n, d] = x[n, d] * share


@njit(cache=True, fastmath=FASTER, error_model="numpy")
def _added(x: Floats, more: Floats, epsilon: np.float32, out: Floats) -> None:
    count, size = x.shape
    for n in range(count):
        squares = F(0)
        for d in range(size):
            both = x[n, d] + more[n, d]
            x[n, d] = both
            squares += both * both
        share = F(1) / np.sqrt(squares / F(size) + epsilon)
        for d in range(size):
            out[n, d] = x[n, d] * share


@njit(cache=True, fastmath=FASTER, error_model="numpy")
def _turned(
    mixed: Floats,
    scale: Floats,
    cosines: Floats,
    sines: Floats,
    positions: Places,
    epsilon: np.float32,
    each: bool,
    q: Floats,
    k: Floats,
    v: Floats,
) -> None:
    count, heads, size = q.shape
    kv_heads, half = k.shape[1], size // 2
    for n in range(count):
        row, place = mixed[n], positions[n]
        for h in range(heads + kv_heads):
            head, out = row[h * size : (h + 1) * size], q[n, h] if h < heads else k[n, h - heads]
            share = F(1)
            if each:
                squares = F(0)
                for d in range(size):
                    squares += head[d] * head[d]
                share = F(1) / np.sqrt(squares / F(size) + epsilon)
            for d in range(half):
                a, b = head[2 * d] * share * scale[h, 2 * d], head[2 * d + 1] * share * scale[h, 2 * d + 1]
                out[2 * d] = a * cosines[place, d] - b * sines[place, d]
                out[2 * d + 1] = a * sines[place, d] + b * cosines[place, d]
        for h in range(kv_heads):
            for d in range(size):
                v[n, h, d] = row[(heads + kv_heads + h) * size + d]


@njit(cache=True, fastmath=FASTER, error_model="numpy")
def _gated(both: Floats, powers: Powers, out: Floats) -> None:
    """silu(x) = x / (1 + exp(-x))."""
    count, size = out.shape
    scale = powers.view(np.float32)
    for n in range(count):
        for d in range(size):
            out[n, d], powers[d] = exponential(min(max(-both[n, d], F(-87.0)), F(87.0)))
        for d in range(size):
            out[n, d] = both[n, d] / (F(1) + out[n, d] * scale[d]) * both[n, size + d]
