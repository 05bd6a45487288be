"""Keys and values of many streams in pages on one device, and the attention of new tokens over them.

    keys, values   [L, pages, PAGE, K, D]
    table          of each slot the pages of its stream, in their order

Memory goes with the tokens that there are and not with the longest context, and slots whose streams begin alike hold the same pages
(2309.06180). Only whole pages are shared, so that nobody writes to one that another reads.

On a GPU one kernel reads the pages of all streams, and adds up a row's sums in one order whichever rows run beside it. Under a torch before
2.12, whose kernel knows no pages, those of all streams are put together first, and elsewhere those of each stream.

Axes: N new tokens, H heads, K key-value heads, D head size, L layers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.lanes import Places
from patchgrad.networks.packed import Attend, behind

PAGE = 256  # tokens, the least that flash attention takes


class PagedCache:
    """Room for as many tokens as `pages` hold, of `slots` streams that have at most `length` each."""

    def __init__(self, config: DecoderConfig, slots: int, length: int, pages: int, device: torch.device, dtype: torch.dtype) -> None:
        shape = (config.layers, pages, PAGE, config.kv_heads, config.head_size)
        self.keys, self.values = (torch.zeros(shape, device=device, dtype=dtype) for _ in range(2))
        self.table = np.zeros((slots, -(-length // PAGE)), np.int32)
        self.count = np.zeros(slots, np.int64)
        self.holders = np.zeros(pages, np.int64)
        self.free = list(range(pages))
        self.windows = config.windows or (0,) * config.layers
        self.reads = reading(self.keys.device, dtype, config.heads, config.kv_heads, config.head_size)

    def grow(self, slots: Places, ends: Places) -> bool:
        """Pages for the first `ends` tokens of these slots; if there are too few, none is taken and the answer is false."""
        lacking = np.maximum(-(-ends // PAGE) - self.count[slots], 0)
        if lacking.sum() > len(self.free):
            return False
        for slot, more in zip(slots[lacking > 0], lacking[lacking > 0], strict=True):
            for _ in range(more):
                self._hold(slot, self.free.pop())
        return True

    def cut(self, slot: int, known: int) -> int:
        """Drops what a slot has behind its first `known` tokens; how many of those it still has, as the last page may not be its own."""
        whole, rest = divmod(known, PAGE)
        keep = whole + bool(rest and whole < self.count[slot] and self.holders[self.table[slot, whole]] == 1)
        for page in self.table[slot, keep : self.count[slot]]:
            self.holders[page] -= 1
            if not self.holders[page]:
                self.free.append(int(page))
        self.count[slot] = min(keep, self.count[slot])
        return min(known, keep * PAGE)

    def copy(self, slot: int, origin: int, first: int, last: int) -> int:
        """Up to `last` a slot's stream is that of `origin`, and so are its pages from now on; how many tokens it has, at least `first`."""
        whole = last // PAGE
        if whole * PAGE <= first:
            return first
        self.cut(slot, 0)
        for page in self.table[origin, :whole]:
            self._hold(slot, int(page))
        return whole * PAGE

    def _hold(self, slot: int, page: int) -> None:
        self.table[slot, self.count[slot]] = page
        self.count[slot] += 1
        self.holders[page] += 1

    def attending(self, slots: Places, positions: Places) -> Attend:
        """What new tokens see: their keys and values are stored, and each sees those of its slot up to its own.

        The tokens of a slot are neighbours, in their order.
        """
        device, runs = self.keys.device, Runs.of(slots, positions, self.table)
        pages = self.table[slots, positions // PAGE].astype(np.int64)
        places = torch.from_numpy(pages * PAGE + positions % PAGE).to(device)
        seen = {window: self.reads(runs, device, window) for window in set(self.windows)}

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            for store, new in ((self.keys, k), (self.values, v)):
                store[layer].flatten(0, 1).index_copy_(0, places, new.to(store.dtype))
            return seen[self.windows[layer]](layer, q.to(self.keys.dtype), self.keys[layer], self.values[layer])

        return attend


@dataclass(frozen=True, slots=True)
class Runs:
    """New tokens `[first, last)` of each slot that has some, its pages, and how many tokens its stream has with them."""

    firsts: Places
    lasts: Places
    pages: npt.NDArray[np.int32]
    ends: Places

    @classmethod
    def of(cls, slots: Places, positions: Places, table: npt.NDArray[np.int32]) -> Runs:
        """Of slots `[4, 4, 2]` at positions `[10, 11, 3]` these are `[0, 2)` and `[2, 3)`, of streams of 12 and 4 tokens."""
        edges = np.flatnonzero(np.diff(slots)) + 1
        firsts, lasts = np.concatenate([[0], edges]), np.concatenate([edges, [len(slots)]])
        ends = positions[lasts - 1] + 1
        return cls(firsts, lasts, table[slots[firsts], : -(-int(ends.max()) // PAGE)], ends)

    @property
    def rows(self) -> Places:
        """Where the tokens of these streams lie, end to end: of pages 8 and 4 and 12 tokens on the first, `[2048, ..., 2059]`."""
        places = self.pages[:, :, None].astype(np.int64) * PAGE + np.arange(PAGE)
        return places.reshape(len(places), -1)[np.arange(self.pages.shape[1] * PAGE) < self.ends[:, None]]


Reads = Callable[[Runs, torch.device, int], Attend]
"""What new tokens see in a layer: of all tokens of their streams, or of so many of the last."""


def by_stream(runs: Runs, device: torch.device, window: int = 0) -> Attend:
    """A call for each run, over the pages of its stream put together."""
    held = (row[: -(-end // PAGE)].astype(np.int64) for row, end in zip(runs.pages, runs.ends, strict=True))
    pages = [torch.from_numpy(own).to(device) for own in held]
    told = list(zip(runs.firsts.tolist(), runs.lasts.tolist(), pages, runs.ends.tolist(), strict=True))

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = []
        for a, b, own, end in told:
            keys, values = (part[own].flatten(0, 1)[:end] for part in (k, v))
            parts.append(behind(q[a:b], keys, values, window))
        return torch.cat(parts)

    return attend


def by_rows(runs: Runs, device: torch.device, window: int = 0) -> Attend:
    """One call for all runs, of a kernel that knows no pages: what it reads is put together first."""
    rows, attended = torch.from_numpy(runs.rows).to(device), _attended(runs, device, window)

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attended(q, *(part.flatten(0, 1).index_select(0, rows) for part in (k, v)))

    return attend


def by_pages(runs: Runs, device: torch.device, window: int = 0) -> Attend:
    """One call for all runs, of a kernel that reads pages where they are."""
    used, table = (torch.from_numpy(one.astype(np.int32)).to(device) for one in (runs.ends, runs.pages))
    attended = _attended(runs, device, window, seqused_k=used, block_table=table, num_splits=1)
    return lambda _, q, k, v: attended(q, k, v)


def _attended(runs: Runs, device: torch.device, window: int, **options: Any) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Torch's kernel for streams of different lengths."""
    from torch.nn.attention.varlen import varlen_attn  # takes 70 MB, which only a GPU needs

    told = (np.append(runs.firsts, runs.lasts[-1:]), np.append([0], runs.ends.cumsum()))
    starts, reached = (torch.from_numpy(one.astype(np.int32)).to(device) for one in told)
    most, longest = int((runs.lasts - runs.firsts).max()), int(runs.ends.max())
    if "enable_gqa" in inspect.signature(varlen_attn).parameters:  # before torch 2.12 it does so unasked
        options["enable_gqa"] = True

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = varlen_attn(q.contiguous(), k, v, starts, reached, most, longest, window_size=(window - 1, 0), **options)
        assert isinstance(found, Tensor)
        return found

    return attended


@cache
def reading(device: torch.device, dtype: torch.dtype, heads: int, kv_heads: int, size: int) -> Reads:
    """The fastest way to read pages that this torch has for such heads and this precision, of those that say what `by_stream` says."""
    if device.type != "cuda":
        return by_stream
    return next((way for way in (by_pages, by_rows) if _agrees(way, device, dtype, heads, kv_heads, size)), by_stream)


def _agrees(way: Reads, device: torch.device, dtype: torch.dtype, heads: int, kv_heads: int, size: int) -> bool:
    """It is asked something small."""
    runs = Runs.of(np.array([0, 0, 1]), np.array([PAGE, PAGE + 1, 6]), np.array([[2, 0], [1, 1]], np.int32))
    q, k, v = (torch.randn(shape, device=device).to(dtype) for shape in ((3, heads, size), *(((3, PAGE, kv_heads, size),) * 2)))
    try:
        return torch.allclose(way(runs, device, 0)(0, q, k, v), by_stream(runs, device)(0, q, k, v), atol=0.02)
    except (ImportError, TypeError, ValueError, RuntimeError):  # an older torch, another precision, another card
        return False
