"""Attention in blocks on a CPU: what each query sees is cut into rectangles without a mask, and small triangles.

A kernel that masks what lies ahead computes it first: PyTorch's on a CPU takes keys by 512, so that in a sequence of 640 tokens it makes
1.7 times the products that count. Cut in blocks, next to nothing is masked, and where many sequences stand behind one beginning all of them
read it in one block (as in Hydragen, arXiv 2402.05099). Parts are put together by the sum of exponentials that each of them tells; the
kernel of the backward pass, given the sum over all parts, finds in each the whole's gradients (as in Ring Attention, arXiv 2310.01889).

Axes: N queries, T keys, H heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LEAST = 128  # tokens of a triangle that is not cut: below that calls cost more than masked products
MOST = 32  # such triangles in a sequence: in a long one they are larger, and what they mask is a thirty-second of its products

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@dataclass(frozen=True, slots=True)
class Block:
    """Queries that see all of these keys; in a `causal` one, which has as many of each, every query those up to its own."""

    queries: slice
    keys: slice
    causal: bool = False


def triangle(query: int, key: int, length: int, least: int = 0) -> list[Block]:
    """So many tokens from this query and this key on, each of which sees those up to it: two triangles of half the length, and a square.

    Of 200 tokens: two triangles of 100, and 100 queries that see all of the first 100 keys.
    """
    least = least or max(LEAST, -(-length // MOST))
    if length <= least:
        return [Block(slice(query, query + length), slice(key, key + length), causal=True)]
    half = (length + 1) // 2
    square = Block(slice(query + half, query + length), slice(key, key + half))
    return [*triangle(query, key, half, least), *triangle(query + half, key + half, length - half, least), square]


def seen(q: Tensor, k: Tensor, v: Tensor, blocks: tuple[Block, ...]) -> Tensor:
    """Attention of queries to the keys of all their blocks: `[N, H, D], [T, K, D], [T, K, D] -> [N, H, D]`, all of one precision.

    Each query stands in one causal block, before any other that it stands in. Computed in `float32` at least: on blocks of this size the
    kernel of the backward pass takes 2.7 times as long in `bfloat16`, also where the processor multiplies it. What is kept for it is in
    the precision that was given, and has as many heads.
    """
    attend: Callable[..., Tensor] = _Seen.apply
    return attend(q, k, v, blocks)


class _Seen(torch.autograd.Function):
    """`seen`. A softmax's mean over several sets of keys is the mean of their means, by their sums of exponentials."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, blocks: tuple[Block, ...]) -> Tensor:
        wide_q, wide_k, wide_v = _by_head(q, k, v)
        whole = torch.empty(q.shape, dtype=wide_q.dtype, device=q.device)
        out, total = whole.transpose(0, 1).unsqueeze(0), wide_q.new_empty(wide_q.shape[:3])
        for block in blocks:
            at, keys = (slice(None), slice(None), block.queries), (slice(None), slice(None), block.keys)
            mean, mass = _forward(wide_q[at], wide_k[keys], wide_v[keys], 0.0, block.causal)
            if block.causal:
                out[at], total[at] = mean, mass
            else:
                both = torch.logaddexp(total[at], mass)
                out[at] = out[at] * (total[at] - both).exp_().unsqueeze(-1) + mean * (mass - both).exp_().unsqueeze(-1)
                total[at] = both
        found = whole.to(q.dtype)
        ctx.save_for_backward(q, k, v, found, total)
        ctx.blocks = blocks
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, found, total = ctx.saved_tensors
        wide_q, wide_k, wide_v = _by_head(q, k, v)
        out, to_out = (_heads_first(_widened(part)) for part in (found, gradients[0]))
        to_q, to_k, to_v = (torch.zeros_like(part) for part in (wide_q, wide_k, wide_v))
        for block in ctx.blocks:
            at, keys = (slice(None), slice(None), block.queries), (slice(None), slice(None), block.keys)
            more = _backward(to_out[at], wide_q[at], wide_k[keys], wide_v[keys], out[at], total[at], 0.0, block.causal)
            for whole, rows, part in zip((to_q, to_k, to_v), (at, keys, keys), more, strict=True):
                whole[rows] += part
        return _own(to_q, q), _own(to_k, k), _own(to_v, v), None


def _by_head(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As the kernels take them: wide, `[1, H, N, D]`, a key for each of the queries' heads."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (_heads_first(_widened(part)) for part in (q, k, v))
    return (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)) if group > 1 else (q, k, v)


def _own(gradient: Tensor, of: Tensor) -> Tensor:
    """The gradient `[1, H, N, D]` of what was given `[N, K, D]`: summed over the queries' heads that share one."""
    shared = gradient[0].view(of.shape[1], -1, *gradient.shape[2:]).sum(1) if gradient.shape[1] > of.shape[1] else gradient[0]
    return shared.transpose(0, 1).to(of.dtype)


def _widened(part: Tensor) -> Tensor:
    return part.to(torch.promote_types(part.dtype, torch.float32))


def _heads_first(part: Tensor) -> Tensor:
    return part.transpose(0, 1).unsqueeze(0)
