"""Attention among the tokens of a pack, which lie in the nodes of a tree (`networks/prefixes.py`).

Axes: P tokens of a pack, N new tokens, T tokens that they see, H heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from patchgrad.networks.prefixes import Node

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""What a layer's new queries see: its number, `q [N, H, D]`, `k [N, K, D]`, `v [N, K, D]` -> `[N, H, D]`."""

QUERIES = 1024  # tokens behind others that attend at once on a CPU


def within(nodes: Sequence[Node]) -> Attend:
    """Each token of a pack sees those before it in its own sequence, that is in its node and in the nodes above.

    A loop over nodes: on a CPU it is faster than padding and than any dense mask, and `split` has a linear backward.
    """
    lengths = [node.length for node in nodes]

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        queries, keys, values = (torch.split(part, lengths) for part in (q, k, v))
        parts = []
        for number, node in enumerate(nodes):
            way = (*node.path, number)
            seen, said = (torch.cat([part[i] for i in way]) if node.path else part[number] for part in (keys, values))
            parts.append(behind(queries[number], seen, said))
        return torch.cat(parts)

    return attend


def behind(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of the last N of T tokens, each to those up to it: `[N, H, D], [T, K, D], [T, K, D] -> [N, H, D]`.

    A GPU's kernels know how such a triangle lies; for a CPU's its mask is written out, in blocks of `QUERIES` tokens.
    """
    ahead, grouped = len(k) - len(q), q.shape[1] != k.shape[1]
    q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in (q, k, v))
    if not ahead:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)[0].transpose(0, 1)
    if q.is_cuda:
        from torch.nn.attention.bias import causal_lower_right  # takes 70 MB, which only a GPU needs

        triangle = causal_lower_right(q.shape[2], k.shape[2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=triangle, enable_gqa=grouped)[0].transpose(0, 1)
    found = []
    for first in range(0, q.shape[2], QUERIES):
        block = q[:, :, first : first + QUERIES]
        seen = ahead + first + block.shape[2]
        visible = torch.ones(block.shape[2], seen, dtype=torch.bool).tril(ahead + first)
        found.append(F.scaled_dot_product_attention(block, k[:, :, :seen], v[:, :, :seen], attn_mask=visible, enable_gqa=grouped))
    return torch.cat(found, 2)[0].transpose(0, 1)
