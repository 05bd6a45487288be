"""The decoder in shards over all ranks (FSDP2, 2304.11277). Nothing of it is ever whole: it is built without memory, and filled by rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import Lora, adapt
from patchgrad.networks.packed import Attend
from patchgrad.trainers.frozen import trainable
from patchgrad.trainers.sharded.ordered import InOrder

Measure = Callable[[Decoder, Tensor, Tensor], tuple[Tensor, Tensor]]
"""`Decoder.logprobs` or `Decoder.nll_excess`: of hidden states `[N, d]` and the tokens that follow them `[N]`, two values each."""

Read = Callable[[str, int, int], Tensor]


class ShardedDecoder(Decoder):
    """A decoder whose hidden states meet its head inside one forward pass, since a shard of a head multiplies nothing outside of it."""

    def predict(
        self, measure: Measure, inputs: tuple[Tensor, Tensor], attend: Attend, again: bool, said: Tensor | None, at: Tensor, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What `measure` says of rows `at` of those that the last layer computes; tokens and positions are this rank's."""
        hidden = Decoder.forward(self, *inputs, attend, again, said)
        return measure(self, hidden[at], targets)


def sharded(
    config: DecoderConfig, mesh: DeviceMesh, *, lora: Lora | None, kept: torch.dtype, frozen: Sequence[str], exact: bool
) -> Decoder:
    """The network over the ranks of a mesh, without values.

    Each layer is gathered where it is computed, and given up behind it; embedding and head stay from the forward pass to the backward one.
    Gradients are sums over ranks, since costs are divided by all trained tokens already; where they are to be `exact`, in the order of
    ranks.
    """
    with torch.device("meta"):
        network = ShardedDecoder(config)
        if lora:
            adapt(network, lora, kept)
    trainable(network, frozen)
    for module in (*network.model.layers, network):
        fully_shard(module, mesh=mesh)
    for part in parts(network):
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)
        if exact:
            part.set_custom_reduce_scatter(InOrder())
    register_fsdp_forward_method(network, "predict")
    network.to_empty(device=mesh.device_type)
    return network


def parts(network: nn.Module) -> Iterable[FSDPModule]:
    """What is gathered and given up together: each layer, and the rest."""
    return (module for module in network.modules() if isinstance(module, FSDPModule))


@torch.no_grad()
def fill(parameters: Mapping[str, Tensor], read: Read, group: dist.ProcessGroup, only: Callable[[str], bool] = bool) -> None:
    """Each parameter's own rows become what `read` says of its name and the rows from the first to before the last."""
    for name, parameter in parameters.items():
        if only(name):
            local(parameter).copy_(read(name, *own_rows(len(parameter), group)))


@torch.no_grad()
def spread(parameters: Mapping[str, Tensor], read: Read | None, group: dist.ProcessGroup) -> None:
    """The same where the first rank alone can read: it sends each of the others its rows."""
    for name, parameter in parameters.items():
        own = local(parameter)
        for rank in range(1, dist.get_world_size(group)) if read else ():
            first, last = rows_of(len(parameter), rank, group)
            if read and first < last:
                rows = read(name, first, last).to(own.device).expand(last - first, *own.shape[1:])
                dist.send(rows.contiguous(), group=group, group_dst=rank)
        if read:
            own.copy_(read(name, *own_rows(len(parameter), group)))
        elif len(own):
            rows = torch.empty_like(own, dtype=torch.float32)
            dist.recv(rows, group=group, group_src=0)
            own.copy_(rows)


def own_rows(count: int, group: dist.ProcessGroup) -> tuple[int, int]:
    """The rows of a tensor of so many that lie on this rank."""
    return rows_of(count, dist.get_rank(group), group)


def rows_of(count: int, rank: int, group: dist.ProcessGroup) -> tuple[int, int]:
    """The rows of a tensor of so many that lie on a rank: the first to before the last. Five over four ranks: 2, 2, 1 and 0."""
    each = -(-count // dist.get_world_size(group))
    first = min(rank * each, count)
    return first, min(first + each, count)


def local(tensor: Tensor) -> Tensor:
    """This rank's part of it, which changes with it."""
    return tensor.to_local().detach() if isinstance(tensor, DTensor) else tensor.detach()


def whole(tensor: Tensor) -> Tensor:
    """All of it on every rank, which is a collective."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
