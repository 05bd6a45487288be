"""`networks/attention.py` over keys and values that are kept in `bfloat16`, the upper half of a `float32`.

A tile is made wide once for all queries that see it: those of the heads that share it and, where a stream is read, those of up to `BLOCK`
neighbours. Sums are made in `float32`, and each query's in the order of its positions, whoever is beside it.

Axes: N new tokens, W of them wanted, S slots, T positions, H heads, K key-value heads, D head size.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from patchgrad.networks.attention import TILE, exponentials
from patchgrad.networks.halves import Bits, Halves, half
from patchgrad.networks.lanes import FASTER, F, Floats, Places

BLOCK = 8

Wide = npt.NDArray[np.int32]


def store(k: Floats, v: Floats, keys: Halves, values: Halves, slots: Places, positions: Places) -> None:
    """The keys and values `[N, K, D]` of new tokens take their places, rounded to the nearest."""
    _store(k.view(np.uint32), v.view(np.uint32), keys, values, slots, positions)


@njit(nogil=True, cache=True, error_model="numpy")
def _store(k: Bits, v: Bits, keys: Halves, values: Halves, slots: Places, positions: Places) -> None:
    count, kv_heads, size = k.shape
    for n in range(count):
        tile, column = positions[n] // TILE, positions[n] % TILE
        for h in range(kv_heads):
            for d in range(size):
                keys[slots[n], h, tile, d, column] = half(k[n, h, d])
                values[slots[n], h, positions[n], d] = half(v[n, h, d])


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy")
def attend(
    q: Floats,
    keys: Halves,
    values: Halves,
    slots: Places,
    positions: Places,
    wanted: Places,
    window: int,
    out: Floats,
) -> None:
    """What the tokens at `wanted` see, into `out` `[W, H, D]`: no more than the last `window` positions."""
    heads, size = q.shape[1:]
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    scores = np.empty((BLOCK * group, (positions.max() // TILE + 1) * TILE), np.float32)
    powers = np.empty(scores.shape[1], np.int32)
    tile = np.empty(size * TILE, np.int32)
    first = 0
    while first < len(wanted):
        last = first + 1
        slot = slots[wanted[first]]
        whole = positions[wanted[first]] < window  # a window moves from one query to the next
        while last < len(wanted) and last - first < BLOCK and slots[wanted[last]] == slot and whole and positions[wanted[last]] < window:
            last += 1
        low = max(positions[wanted[first]] + 1 - window, 0)
        before = low // TILE * TILE
        for h in range(kv_heads):
            _scores(q, keys[slot, h, low // TILE :], positions, wanted[first:last], h * group, before, tile, scores)
            for w in range(last - first):
                seen = positions[wanted[first + w]] + 1 - before
                for g in range(group):
                    row = scores[w * group + g]
                    for t in range(low % TILE):
                        row[t] = F(-1e30)
                    share = F(1) / exponentials(row, powers, powers.view(np.float32), seen)
                    for t in range(seen):
                        row[t] *= share
            _means(values[slot, h, before:], positions, wanted[first:last], before, tile, scores, out[first:last], h)
        first = last


@njit(nogil=True, cache=True, error_model="numpy", forceinline=True)
def _widen(halves: Halves, wide: Wide) -> None:
    """Halves `[M]` as the bits of numbers."""
    for i in range(len(halves)):
        wide[i] = np.int32(halves[i]) << np.int32(16)


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy", forceinline=True)
def _scores(q: Floats, keys: Halves, positions: Places, some: Places, head: int, before: int, tile: Wide, scores: Floats) -> None:
    """The products of some queries' heads, from `head` on, with each key: `[N, H, D], [T / TILE, D, TILE] -> [W G, T]`."""
    size, rows = q.shape[2], len(some)
    group = len(scores) // BLOCK
    block = tile.view(np.float32).reshape(size, TILE)
    fours = size // 4 * 4
    for number in range((positions[some[rows - 1]] - before) // TILE + 1):
        _widen(keys[number].reshape(-1), tile)
        for w in range(rows):
            if positions[some[w]] - before < number * TILE:
                continue
            for g in range(group):
                own, row = q[some[w], head + g], scores[w * group + g, number * TILE : (number + 1) * TILE]
                for t in range(TILE):
                    row[t] = F(0)
                for d in range(0, fours, 4):
                    a, b, c, e = own[d], own[d + 1], own[d + 2], own[d + 3]
                    for t in range(TILE):
                        row[t] += a * block[d, t] + b * block[d + 1, t] + c * block[d + 2, t] + e * block[d + 3, t]
                for d in range(fours, size):
                    for t in range(TILE):
                        row[t] += own[d] * block[d, t]


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy", forceinline=True)
def _means(values: Halves, positions: Places, some: Places, before: int, tile: Wide, weights: Floats, out: Floats, kv_head: int) -> None:
    """The values' means under the weights of some queries' heads: `[W G, T], [T, D] -> [W, H, D]`."""
    size, rows = out.shape[2], len(some)
    group = len(weights) // BLOCK
    block = tile.view(np.float32).reshape(TILE, size)
    for w in range(rows):
        for g in range(group):
            for d in range(size):
                out[w, kv_head * group + g, d] = F(0)
    for number in range((positions[some[rows - 1]] - before) // TILE + 1):
        _widen(values[number * TILE : (number + 1) * TILE].reshape(-1), tile)
        for w in range(rows):
            count = min(positions[some[w]] + 1 - before - number * TILE, TILE)
            fours = count // 4 * 4
            for g in range(group):
                share, own = out[w, kv_head * group + g], weights[w * group + g, number * TILE : (number + 1) * TILE]
                for t in range(0, fours, 4):
                    a, b, c, e = own[t], own[t + 1], own[t + 2], own[t + 3]
                    for d in range(size):
                        share[d] += a * block[t, d] + b * block[t + 1, d] + c * block[t + 2, d] + e * block[t + 3, d]
                for t in range(max(fours, 0), count):
                    for d in range(size):
                        share[d] += own[t] * block[t, d]
