"""Keys and values of many streams, and the attention of new tokens over them, compiled for the processor at hand.

    new tokens: queries [N, H, D], keys [N, K, D], values [N, K, D], each with a slot and a position
    cache:      keys [S, K, T / TILE, D, TILE], values [S, K, T, D]

Each token attends to the positions of its slot up to its own, by itself: whether it runs alone, beside others or after those that were
just stored, the same sums are made in the same order, so the same bits come out. Keys lie in tiles of `TILE` positions with a
position a column, so that both products run along memory; nothing is padded, masked or copied together. Quotients are no estimates, which
differ between processors of two makers.

The parts of the kernel are forced into it: called, the process that compiles them would call copies that were made by themselves, and one
that loads the kernel from Numba's cache those that were made with it, which add up in other lanes.

Axes: N new tokens, W of them wanted, S slots, T positions, H heads, K key-value heads, D head size.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.lanes import FASTER, F, Floats, Places, Powers, exponential

TILE = 64


class Cache:
    """Keys and values by layer for `slots` streams of at most `length` tokens; zeros cost no memory until they are written."""

    def __init__(self, config: DecoderConfig, slots: int, length: int) -> None:
        tiles, shape = -(-length // TILE), (config.layers, slots, config.kv_heads)
        self.keys = np.zeros((*shape, tiles, config.head_size, TILE), np.float32)
        self.values = np.zeros((*shape, tiles * TILE, config.head_size), np.float32)
        self.windows = config.windows or (0,) * config.layers

    def grow(self, slots: Places, ends: Places) -> bool:
        """Room for the first `ends` tokens of these slots, which there is."""
        return True

    def cut(self, slot: int, known: int) -> int:
        """What a slot has behind its first `known` tokens is of no use any more; how many of those it still has."""
        return known

    def copy(self, slot: int, origin: int, first: int, last: int) -> int:
        """Positions `[first, last)` of `slot` become those of slot `origin`, whose stream begins alike; how many it has then."""
        tiles = slice(first // TILE, -(-last // TILE))
        self.keys[:, slot, :, tiles] = self.keys[:, origin, :, tiles]
        self.values[:, slot, :, first:last] = self.values[:, origin, :, first:last]
        return last

    def attend(self, layer: int, q: Floats, k: Floats, v: Floats, slots: Places, positions: Places, wanted: Places) -> Floats:
        """Stores the keys and values of new tokens, then attends with those at `wanted`: `[W, H, D]`. A token sees those of its slot that
        lie before it, or the last of them where the layer has a window."""
        out = np.empty((len(wanted), *q.shape[1:]), np.float32)
        window = self.windows[layer] or self.values.shape[3]
        _attend(q, k, v, self.keys[layer], self.values[layer], slots, positions, wanted, window, out)
        return out


@njit(nogil=True, cache=True, fastmath=FASTER, error_model="numpy")
def _attend(
    q: Floats,
    k: Floats,
    v: Floats,
    keys: Floats,
    values: Floats,
    slots: Places,
    positions: Places,
    wanted: Places,
    window: int,
    out: Floats,
) -> None:
    count, heads, size = q.shape
    kv_heads = k.shape[1]
    for n in range(count):
        tile, column = positions[n] // TILE, positions[n] % TILE
        for h in range(kv_heads):
            for d in range(size):
                keys[slots[n], h, tile, d, column] = k[n, h, d]
                values[slots[n], h, positions[n], d] = v[n, h, d]
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
            total = _exponentials(scores, powers, powers.view(np.float32), seen)
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
def _exponentials(scores: Floats, powers: Powers, scale: Floats, seen: int) -> np.float32:
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
