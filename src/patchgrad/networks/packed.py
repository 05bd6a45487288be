"""Attention among the tokens of a pack, which lie in the nodes of a tree (`networks/prefixes.py`).

Axes: P tokens of a pack, N new tokens, T tokens that they see, H heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from patchgrad.networks.blocks import Block, seen, triangle
from patchgrad.networks.prefixes import Node

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""What a layer's new queries see: its number, `q [N, H, D]`, `k [N, K, D]`, `v [N, K, D]` -> `[N, H, D]`."""


def within(nodes: Sequence[Node]) -> Attend:
    """Each token of a pack sees those before it in its own sequence, that is in its node and in the nodes above.

    On a CPU a node is seen by all that stand below it at once. A GPU's kernels want each node with all that it sees.
    """
    lengths, blocks = [node.length for node in nodes], tuple(_blocks(nodes))

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not q.is_cuda:
            return seen(q, k, v, blocks)
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
    from torch.nn.attention.bias import causal_lower_right  # takes 70 MB, which only a GPU needs

    shared = q.shape[1] // k.shape[1]
    if shared > 1 and q.dtype == torch.float32:  # no kernel without the whole matrix of scores has fewer keys than queries then
        k, v, shared = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), 1
    q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in (q, k, v))
    mask = causal_lower_right(count, len(k)) if ahead else None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=not ahead, enable_gqa=shared > 1)[0].transpose(0, 1)


def _blocks(nodes: Sequence[Node]) -> Iterator[Block]:
    """What the tokens of these nodes see, laid end to end: a triangle a node, and a rectangle for each run of nodes below one."""
    places = [slice(end - node.length, end) for node, end in zip(nodes, accumulate(node.length for node in nodes), strict=True)]
    for place in places:
        yield from triangle(place.start, place.start, place.stop - place.start)
    for number, keys in enumerate(places):
        below = [number in node.path for node in nodes]
        for under, run in groupby(range(len(nodes)), below.__getitem__):
            if under:
                them = [places[i] for i in run]
                yield Block(slice(them[0].start, them[-1].stop), keys)
