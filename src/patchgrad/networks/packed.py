"""Attention among the tokens of a pack, which lie in the nodes of a tree (`networks/prefixes.py`).

Axes: P tokens of a pack, S of them said, N new tokens, T tokens that they see, H heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from patchgrad.networks.blocks import Block, seen, triangle
from patchgrad.networks.prefixes import Node

LONG = 8192  # tokens from which cuDNN's kernel is asked first: on an H100 it takes half the time, and 0.1 s to compile for each length

Rows = npt.NDArray[np.int64]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""What a layer's new queries see: its number, `q [N, H, D]`, `k [N, K, D]`, `v [N, K, D]` -> `[N, H, D]`. Where some are left out,
`q [S, H, D] -> [S, H, D]`."""


def within(nodes: Sequence[Node], said: Rows | None = None) -> Attend:
    """Each token of a pack sees those before it in its own sequence, that is in its node and in the nodes above.

    On a CPU a node is seen by all that stand below it at once, and there may be queries of the tokens `said` alone, `[S]`, ascending. A
    GPU's kernels want each node with all that it sees.
    """
    lengths = [node.length for node in nodes]
    everything = tuple(_blocks(lengths, nodes, np.arange(sum(lengths))))
    some = everything if said is None else tuple(_blocks(lengths, nodes, said))

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not q.is_cuda:
            return seen(q, k, v, everything if len(q) == len(k) else some)
        queries, keys, values = (torch.split(part, lengths) for part in (q, k, v))
        parts = []
        for number, node in enumerate(nodes):
            way = (*node.path, number)
            told = (torch.cat([part[i] for i in way]) if node.path else part[number] for part in (keys, values))
            parts.append(behind(queries[number], *told))
        return torch.cat(parts)

    return attend


def behind(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of the last N of T tokens, each to those up to it: `[N, H, D], [T, K, D], [T, K, D] -> [N, H, D]`."""
    count, ahead = len(q), len(k) - len(q)
    if not q.is_cuda:
        before = [Block(slice(0, count), slice(0, ahead))] if ahead else []
        return seen(q, k, v, (*triangle(0, ahead, count), *before))
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right  # takes 70 MB, which only a GPU needs

    shared = q.shape[1] // k.shape[1]
    if shared > 1 and q.dtype == torch.float32:  # no kernel without the whole matrix of scores has fewer keys than queries then
        k, v, shared = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), 1
    q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in (q, k, v))
    if ahead:
        mask = causal_lower_right(count, count + ahead)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=shared > 1)[0].transpose(0, 1)
    order = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, *order] if count >= LONG else order, set_priority=True):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shared > 1)[0].transpose(0, 1)


def _blocks(lengths: Sequence[int], nodes: Sequence[Node], said: Rows) -> Iterator[Block]:
    """What these of the tokens of the nodes, laid end to end, see: a triangle a run of them, and a rectangle of what lies before it in its
    node; and for each node a rectangle a run of nodes below it."""
    ends = list(accumulate(lengths))
    keys = [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)]
    queries = [slice(*np.searchsorted(said, (place.start, place.stop)).tolist()) for place in keys]
    for own, place in zip(queries, keys, strict=True):
        for first, last in _runs(said, own):
            begin = int(said[first])
            yield from triangle(first, begin, last - first)
            if begin > place.start:
                yield Block(slice(first, last), slice(place.start, begin))
    for number, place in enumerate(keys):
        below = [number in node.path for node in nodes]
        for under, run in groupby(range(len(nodes)), below.__getitem__):
            them = [queries[i] for i in run]
            if under and them[0].start < them[-1].stop:
                yield Block(slice(them[0].start, them[-1].stop), place)


def _runs(said: Rows, part: slice) -> Iterator[tuple[int, int]]:
    """Where in a part of them numbers follow one another: of `[3, 4, 5, 9]` these are `(0, 3)` and `(3, 4)`."""
    cuts = (part.start + 1 + np.flatnonzero(np.diff(said[part]) > 1)).tolist()
    return pairwise([part.start, *cuts, part.stop]) if part.start < part.stop else iter(())
