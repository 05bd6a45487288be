"""Keys and values of many streams on a CPU, each in its slot, and the attention of new tokens over them.

    new tokens: queries [N, H, D], keys [N, K, D], values [N, K, D], each with a slot and a position
    cache:      keys [S, K, T / TILE, D, TILE], values [S, K, T, D]

Keys lie in tiles of `TILE` positions with a position a column, so that both products run along memory; nothing is padded, masked or copied
together. Where products are rounded to `bfloat16`, so is what is kept: half the memory is read.

Axes: N new tokens, W of them wanted, S slots, T positions, H heads, K key-value heads, D head size.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from patchgrad.networks import attention, attention_rounded
from patchgrad.networks.attention import TILE
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.lanes import Floats, Places
from patchgrad.networks.rounding import Precision

KERNELS = {"float32": attention, "bfloat16": attention_rounded}
KEPT = {"float32": np.float32, "bfloat16": np.uint16}
"""How a number is kept; NumPy has no `bfloat16`, which is the upper half of a `float32`."""


class Cache:
    """Keys and values by layer for `slots` streams of at most `length` tokens; zeros cost no memory until they are written.

    The tokens that attend are shared out among `threads`.
    """

    def __init__(self, config: DecoderConfig, slots: int, length: int, precision: Precision = "float32", threads: int = 1) -> None:
        tiles, shape = -(-length // TILE), (config.layers, slots, config.kv_heads)
        self.keys = np.zeros((*shape, tiles, config.head_size, TILE), KEPT[precision])
        self.values = np.zeros((*shape, tiles * TILE, config.head_size), KEPT[precision])
        self.windows = config.windows or (0,) * config.layers
        self._kernel, self._threads = KERNELS[precision], threads
        self._pool = ThreadPoolExecutor(threads, "attention") if threads > 1 else None

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
        keys, values, window = self.keys[layer], self.values[layer], self.windows[layer] or self.values.shape[3]
        self._kernel.store(k, v, keys, values, slots, positions)

        def part(some: Places, rows: Floats) -> None:
            self._kernel.attend(q, keys, values, slots, positions, some, window, rows)

        if self._pool is None:
            part(wanted, out)
        else:
            list(self._pool.map(part, np.array_split(wanted, self._threads), np.array_split(out, self._threads)))
        return out
