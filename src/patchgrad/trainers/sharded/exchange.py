"""What the ranks of a team say to one another in attention: rows for heads, and heads for rows (DeepSpeed-Ulysses, 2309.14509).

All of them are collectives, forward and backward: a rank with nothing to say takes part with nothing. Sizes are told, never asked.

Axes: N rows of this rank, P rows of all, H heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Team:
    """The ranks that compute one micro-batch together; this is number `rank` of `size` in it. One alone needs no group."""

    rank: int = 0
    size: int = 1
    group: dist.ProcessGroup | None = None


def to_heads(x: Tensor, counts: Sequence[int], team: Team) -> Tensor:
    """Its heads of all rows for each rank: `[N, H, D] -> [P, H / size, D]`, where rank `r` has `counts[r]` rows.

    Two ranks with 3 and 2 rows of 4 heads have 5 rows of 2 heads each: the first heads 0 and 1, the second 2 and 3.
    """
    rows, heads, width = x.shape
    by_rank = x.view(rows, team.size, heads // team.size, width).transpose(0, 1).reshape(team.size * rows, heads // team.size, width)
    return _exchange(by_rank, [rows] * team.size, counts, team)


def to_rows(x: Tensor, counts: Sequence[int], team: Team) -> Tensor:
    """The way back: `[P, H / size, D] -> [N, H, D]`."""
    rows = counts[team.rank]
    by_rank = _exchange(x, counts, [rows] * team.size, team)
    return by_rank.view(team.size, rows, *x.shape[1:]).transpose(0, 1).reshape(rows, team.size * x.shape[1], x.shape[2])


def told(x: Tensor, counts: Sequence[int], team: Team) -> Tensor:
    """What all ranks have, one rank after the other: `[N] -> [P]`.

    All compute the same loss with it, so the gradient of a rank's part is that part of the gradient, and no sum over ranks.
    """
    apply: Callable[..., Tensor] = _Told.apply
    return apply(x, counts, team)


class _Told(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, counts: Sequence[int], team: Team) -> Tensor:
        ends = list(accumulate(counts))
        ctx.part = slice(ends[team.rank] - counts[team.rank], ends[team.rank])
        return _sent(x.repeat(team.size, *[1] * (x.dim() - 1)), [len(x)] * team.size, counts, team)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0][ctx.part], None, None


def _exchange(x: Tensor, sent: Sequence[int], received: Sequence[int], team: Team) -> Tensor:
    apply: Callable[..., Tensor] = _Exchanged.apply
    return apply(x, sent, received, team)


class _Exchanged(torch.autograd.Function):
    """Rows to each rank and from each rank; gradients take the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sent: Sequence[int], received: Sequence[int], team: Team) -> Tensor:
        ctx.way = sent, received, team
        return _sent(x, sent, received, team)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        sent, received, team = ctx.way
        return _sent(gradients[0], received, sent, team), None, None, None


def _sent(x: Tensor, sent: Sequence[int], received: Sequence[int], team: Team) -> Tensor:
    found = x.new_empty((sum(received), *x.shape[1:]))
    dist.all_to_all_single(found, x.contiguous(), list(received), list(sent), group=team.group)
    return found
