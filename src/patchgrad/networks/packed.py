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


def within(nodes: Sequence[Node], said: Rows | None = None, windows: Sequence[int] = ()) -> Attend:
    """Each token of a pack sees those before it in its own sequence, that is in its node and in the nodes above.

    On a CPU a node is seen by all that stand below it at once, and there may be queries of the tokens `said` alone, `[S]`, ascending. A
    GPU's kernels want each node with all that it sees. In a layer with one of the `windows` a token sees no more than so many, itself
    among them.
    """
    lengths = [node.length for node in nodes]
    everything = tuple(_blocks(lengths, nodes, np.arange(sum(lengths))))
    some = everything if said is None else tuple(_blocks(lengths, nodes, said))
    longest = max(sum(nodes[above].length for above in node.path) + node.length for node in nodes)

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        window = windows[layer] if windows else 0
        if 0 < window < longest:
            return _within_window(nodes, q, k, v, said if len(q) < len(k) else None, window)
        if not q.is_cuda:
            return seen(q, k, v, everything if len(q) == len(k) else some)
        queries, keys, values = (torch.split(part, lengths) for part in (q, k, v))
        parts = []
        for number, node in enumerate(nodes):
            way = (*node.path, number)
            of_k, of_v = (torch.cat([part[i] for i in way]) if node.path else part[number] for part in (keys, values))
            parts.append(behind(queries[number], of_k, of_v))
        return torch.cat(parts)

    return attend


def _within_window(nodes: Sequence[Node], q: Tensor, k: Tensor, v: Tensor, said: Rows | None, window: int) -> Tensor:
    """`within` in a layer with a window: node by node, each with the tokens above that it may still see."""
    ends = list(accumulate(node.length for node in nodes))
    places = [torch.arange(end - node.length, end, device=k.device) for node, end in zip(nodes, ends, strict=True)]
    rows = torch.arange(len(k), device=k.device) if said is None else torch.from_numpy(said).to(k.device)
    parts = []
    for node, own in zip(nodes, places, strict=True):
        way = torch.cat([*(places[above] for above in node.path), own])
        first, last = torch.searchsorted(rows, torch.stack([own[0], own[-1] + 1])).tolist()
        positions = rows[first:last] - own[0] + (len(way) - len(own))
        parts.append(_banded(q[first:last], k[way], v[way], positions, window))
    return torch.cat(parts)


def _banded(q: Tensor, k: Tensor, v: Tensor, positions: Tensor, window: int) -> Tensor:
    """Attention of queries at these positions, ascending, to the last `window` of the keys up to each: `[N, H, D], [T, K, D] -> [N, H, D]`.

    They are taken in runs of at most a window's length, so that no more than twice a window is masked.
    """
    shared, out = q.shape[1] // k.shape[1], []
    while len(positions):
        count = int(torch.searchsorted(positions, positions[0] + window))
        low, high = max(int(positions[0]) - window + 1, 0), int(positions[count - 1]) + 1
        ages = positions[:count, None] - torch.arange(low, high, device=k.device)
        mask = (ages >= 0) & (ages < window)
        of_q, of_k, of_v = (part.transpose(0, 1).unsqueeze(0) for part in (q[:count], k[low:high], v[low:high]))
        out.append(F.scaled_dot_product_attention(of_q, of_k, of_v, attn_mask=mask, enable_gqa=shared > 1)[0].transpose(0, 1))
        q, positions = q[count:], positions[count:]
    return torch.cat(out) if out else q


def behind(q: Tensor, k: Tensor, v: Tensor, window: int = 0) -> Tensor:
    """Attention of the last N of T tokens, each to those up to it: `[N, H, D], [T, K, D], [T, K, D] -> [N, H, D]`; with a `window` to so
    many."""
    count, ahead = len(q), len(k) - len(q)
    if 0 < window < len(k):
        return _banded(q, k, v, torch.arange(ahead, len(k), device=k.device), window)
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
