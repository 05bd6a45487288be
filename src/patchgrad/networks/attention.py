"""The attention of new tokens over keys and values that are kept (`networks/slots.py`), compiled for the processor at hand.

Each token attends to the positions of its slot up to its own, by itself: whether it runs alone, beside others or after those that were
just stored, the same sums are made in the same order, so the same bits come out. Quotients are no estimates, which differ between
processors of two makers.

The parts of the kernel are forced into it: called, the process that compiles them would call copies that were made by themselves, and one
that loads the kernel from Numba's cache those that were made with it, which add up in other lanes.

Axes: N new tokens, W of them wanted, S slots, T positions, H heads, K key-value heads, D head size.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from patchgrad.networks.lanes import FASTER, F, Floats, Places, Powers, exponential

TILE = 64


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy")
def store(k: Floats, v: Floats, keys: Floats, values: Floats, slots: Places, positions: Places) -> None:
    """The keys and values `[N, K, D]` of new tokens take their places."""
    count, kv_heads, size = k.shape
    for n in range(count):
        tile, column = positions[n] // TILE, positions[n] % TILE
        for h in range(kv_heads):
            for d in range(size):
                keys[slots[n], h, tile, d, column] = k[n, h, d]
                values[slots[n], h, positions[n], d] = v[n, h, d]


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy")
def attend(
    q: Floats,
    keys: Floats,
    values: Floats,
    slots: Places,
    positions: Places,
    wanted: Places,
    window: int,
    out: Floats,
) -> None:
    """What the tokens at `wanted` see, into `out` `[W, H, D]`: no more than the last `window` positions."""
    heads, kv_heads = q.shape[1], keys.shape[1]
    scores = np.empty((positions.max() // TILE + 1) * TILE, np.float32)
    powers = np.empty(len(scores), np.int32)
    for w in range(len(wanted)):
        n = wanted[w]
        low = max(positions[n] + 1 - window, 0)
        tile = low // TILE
        seen, before = positions[n] + 1 - tile * TILE, low - tile * TILE
        for h in range(heads):
            shared = h * kv_heads // heads
            _score(q[n, h], keys[slots[n], shared, tile:], scores, seen)
            for t in range(before):
                scores[t] = F(-1e30)
            total = exponentials(scores, powers, powers.view(np.float32), seen)
            _mean(scores, values[slots[n], shared, tile * TILE :], F(1) / total, out[w, h], seen)


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy", forceinline=True)
def _score(q: Floats, keys: Floats, scores: Floats, seen: int) -> None:
    """The product of a query with each key: `[D], [T / TILE, D, TILE] -> [T]`, four dimensions at a time."""
    size = len(q)
    fours = size // 4 * 4
    for tile in range((seen + TILE - 1) // TILE):
        row, block = scores[tile * TILE : (tile + 1) * TILE], keys[tile]
        for t in range(TILE):
            row[t] = F(0)
        for d in range(0, fours, 4):
            a, b, c, e = q[d], q[d + 1], q[d + 2], q[d + 3]
            for t in range(TILE):
                row[t] += a * block[d, t] + b * block[d + 1, t] + c * block[d + 2, t] + e * block[d + 3, t]
        for d in range(fours, size):
            for t in range(TILE):
                row[t] += q[d] * block[d, t]


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy", forceinline=True)
def exponentials(scores: Floats, powers: Powers, scale: Floats, seen: int) -> np.float32:
    """exp(score - largest) in the place of each score, and their sum; `scale` is the memory of `powers`, read as floats."""
    top = scores[0]
    for t in range(1, seen):
        top = max(top, scores[t])
    for t in range(seen):
        scores[t], powers[t] = exponential(max(scores[t] - top, F(-87.0)))
    total = F(0)
    for t in range(seen):
        weight = scores[t] * scale[t]
        scores[t] = weight
        total += weight
    return total


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy", forceinline=True)
def _mean(weights: Floats, values: Floats, share: np.float32, out: Floats, seen: int) -> None:
    """The values' mean under these weights: `[T], [T, D] -> [D]`, four positions at a time."""
    size = len(out)
    fours = seen // 4 * 4
    for d in range(size):
        out[d] = F(0)
    for t in range(0, fours, 4):
        a, b, c, e = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
        for d in range(size):
            out[d] += a * values[t, d] + b * values[t + 1, d] + c * values[t + 2, d] + e * values[t + 3, d]
    for t in range(fours, seen):
        for d in range(size):
            out[d] += weights[t] * values[t, d]
    for d in range(size):
        out[d] *= share
