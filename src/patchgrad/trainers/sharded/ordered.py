"""Sums over ranks in the order of ranks, so that gradients have the bits of threads that compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter


class InOrder(ReduceScatter):
    """Reduce-scatter as an exchange and a sum: as many bytes as in a ring, whose sums depend on where it begins."""

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any, async_op: bool = False) -> None:
        parts = torch.empty_like(input_tensor)
        dist.all_to_all_single(parts, input_tensor, group=group)
        first, *others = parts.view(dist.get_world_size(group), -1)
        total = first.clone()
        for part in others:
            total += part
        output_tensor.copy_(total.view_as(output_tensor))
