"""Work on whole matrices of which each rank has some rows: a piece is put together on one rank, and its result is given back in rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from patchgrad.trainers.optimisers import Spread


def together(group: dist.ProcessGroup, device: torch.device) -> Spread:
    """A `map` over stacks of this rank's rows `[N, rows, columns]`, whose function is given all rows of a stack; results are rows again.

    Of as many stacks as there are ranks each rank works on one, and ranks that have no row of a matrix take part all the same. With two
    ranks, a stack of one 5 x 2 matrix is 3 x 2 here and 2 x 2 there; one of them is given all five rows, and either has its own back.
    """

    def spread(work: Callable[[Tensor], Tensor], pieces: Iterable[Tensor]) -> Iterator[Tensor]:
        stacks, ranks, me = list(pieces), dist.get_world_size(group), dist.get_rank(group)
        rows = _rows(stacks, group, device)
        for first in range(0, len(stacks), ranks):
            now = stacks[first : first + ranks]
            mine = first + me if me < len(now) else None
            sizes = [0] * ranks if mine is None else [_numbers(now[me], rows[rank][mine]) for rank in range(ranks)]
            own = [stack.numel() for stack in now] + [0] * (ranks - len(now))
            arrived = _sent(torch.cat([stack.flatten() for stack in now]), own, sizes, group)
            done = arrived
            if mine is not None:
                shapes = [(len(now[me]), rows[rank][mine], now[me].shape[2]) for rank in range(ranks)]
                found = work(torch.cat([part.view(shape) for part, shape in zip(torch.split(arrived, sizes), shapes, strict=True)], 1))
                done = torch.cat([part.flatten() for part in torch.split(found, [shape[1] for shape in shapes], 1)])
            back = _sent(done, sizes, own, group)
            yield from (part.view(stack.shape) for part, stack in zip(torch.split(back, own), now, strict=False))

    return spread


def _numbers(stack: Tensor, rows: int) -> int:
    return len(stack) * rows * stack.shape[2]


def _rows(stacks: Sequence[Tensor], group: dist.ProcessGroup, device: torch.device) -> list[list[int]]:
    """How many rows of each stack each rank has."""
    own = torch.tensor([stack.shape[1] for stack in stacks], device=device)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, own, group=group)
    return [one.tolist() for one in every]


def _sent(x: Tensor, sent: Sequence[int], received: Sequence[int], group: dist.ProcessGroup) -> Tensor:
    found = x.new_empty(sum(received))
    dist.all_to_all_single(found, x, list(received), list(sent), group=group)
    return found
