"""Log-probabilities of chosen tokens without the logits of all: `[N, d]` hidden states meet a vocabulary of V in tiles.

A softmax needs a row's greatest logit and the sum of their exponentials, and both can be carried from tile to tile (Milakov and
Gimelshein, arXiv 1805.02867); the backward pass makes each tile again instead of keeping it, as Cut Cross-Entropy does (arXiv 2411.09009).
So memory is that of one tile, whatever V is. Always in `float32`: neighbours in `bfloat16` lie 0.125 apart at a logit of 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

TILE = 1 << 22  # logits of one tile: 16 MiB, which stay near the cores
LEAST = 256  # tokens of the vocabulary in a tile; with more rows than a tile has of these they are cut, too


def logprobs(hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probability of each target, and the entropy it was drawn under: `[N, d], [V, d], [N] -> [N], [N]`.

    No gradient flows through the entropy. Logits 0 and ln 3 have log-probabilities ln 1/4 and ln 3/4, at an entropy of 0.562.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        scored: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]] = _Scored.apply
        return scored(wide(hidden), wide(head), targets)


class _Scored(torch.autograd.Function):
    """`logprobs`, whose backward pass makes the logits again."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        parts = [_score(hidden[rows], head, targets[rows]) for rows in _rows(len(hidden), len(head))]
        said, total, entropy = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.save_for_backward(hidden, head, targets, total)
        ctx.mark_non_differentiable(entropy)
        return said, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        hidden, head, targets, total = ctx.saved_tensors
        said = gradients[0].to(hidden.dtype)
        to_hidden = torch.zeros_like(hidden) if ctx.needs_input_grad[0] else None
        to_head = torch.zeros_like(head) if ctx.needs_input_grad[1] else None
        for rows in _rows(len(hidden), len(head)):
            for tile, logits in _tiles(hidden[rows], head):
                chances = logits.sub_(total[rows, None]).exp_().mul_(-said[rows, None])
                at, inside = _inside(targets[rows], tile)
                chances.scatter_add_(1, at, torch.where(inside, said[rows, None], 0.0))
                if to_hidden is not None:
                    to_hidden[rows].addmm_(chances, head[tile])
                if to_head is not None:
                    to_head[tile].addmm_(chances.T, hidden[rows])
        return to_hidden, to_head, None


def logits(hidden: Tensor, head: Tensor) -> Tensor:
    """`[N, V]`, all of them."""
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.nn.functional.linear(wide(hidden), wide(head)).float()


def wide(x: Tensor) -> Tensor:
    """At least `float32`."""
    return x.float() if x.dtype == torch.bfloat16 else x


def _score(hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The targets' log-probabilities, the logarithm of the sum of all exponentials, and the entropy, `[N]` each."""
    highest = hidden.new_full((len(hidden), 1), -torch.inf)
    mass, weighted, chosen = (torch.zeros_like(highest) for _ in range(3))
    for tile, values in _tiles(hidden, head):
        at, inside = _inside(targets, tile)
        chosen += torch.where(inside, values.gather(1, at), 0.0)
        higher = torch.maximum(highest, values.amax(1, keepdim=True))
        shrunk = (highest - higher).exp_()
        values -= higher
        # sum of e^x (x - highest), moved along when the highest rises
        weighted = shrunk * (weighted + torch.where(mass > 0, mass * (highest - higher), 0.0))
        mass *= shrunk
        chances = values.exp()
        weighted += torch.linalg.vecdot(chances, values)[:, None]
        mass += chances.sum(1, keepdim=True)
        highest = higher
    beyond = mass.log()
    return (chosen - highest - beyond)[:, 0], (highest + beyond)[:, 0], (beyond - weighted / mass)[:, 0]


def _rows(count: int, vocabulary: int) -> Iterator[slice]:
    """Rows in as few parts as tiles of the least width allow."""
    most = max(1, TILE // min(vocabulary, LEAST))
    yield from (slice(i, i + most) for i in range(0, max(count, 1), most))


def _tiles(hidden: Tensor, head: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Parts of the vocabulary and the logits `[N, part]` there, which are the caller's until the next part."""
    width = min(len(head), max(LEAST, TILE // max(1, len(hidden))))
    place = hidden.new_empty(len(hidden) * width)
    for first in range(0, len(head), width):
        tile = slice(first, min(first + width, len(head)))
        size = (len(hidden), tile.stop - first)
        yield tile, torch.mm(hidden, head[tile].T, out=place[: size[0] * size[1]].view(size))


def _inside(targets: Tensor, tile: slice) -> tuple[Tensor, Tensor]:
    """Where in the tile each target stands, `[N, 1]`, and whether it does; where it does not the place says nothing."""
    at = targets[:, None] - tile.start
    return at.clamp(0, tile.stop - tile.start - 1), (at >= 0) & (at < tile.stop - tile.start)
