"""The same network for sampling on a GPU: the trainer's own layers over keys and values that are kept (`networks/paged.py`).

It computes what the trainer computes, in the trainer's precision; only the order of sums differs. That keeps the log-probabilities of the
two together where both round to `bfloat16`, which weights arranged otherwise (`networks/cached.py`, for a CPU) would not.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from patchgrad.errors import OutOfMemory
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lanes import Places
from patchgrad.networks.paged import PAGE, PagedCache
from patchgrad.values import Ids


class DeviceDecoder:
    """A copy of a network on its device, with caches of `room` bytes in all for streams of at most `length` tokens."""

    def __init__(self, network: Decoder, length: int, room: int, precision: torch.dtype = torch.float32) -> None:
        self.config, self.length, self.precision = network.config, length, precision
        self.device = network.head.device
        self.network = blank(network, precision)
        self.refill({name: parameter.detach() for name, parameter in network.named_parameters()})
        each = 2 * self.config.layers * PAGE * self.config.kv_heads * self.config.head_size * precision.itemsize
        self.pages = room // each
        if self.pages < 1:
            raise OutOfMemory(f"{max(room, 0) / 1e6:.0f} MB are left for the policy's caches, and one page takes {each / 1e6:.0f}.")

    def refill(self, weights: Mapping[str, Tensor]) -> None:
        """Takes over weights named as in transformers, one after the other; the caller's tensors are copied, never kept."""
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(weights[name])

    def cache(self, slots: int) -> PagedCache:
        """Pages for as many streams; no more than they could fill."""
        pages = min(self.pages, slots * -(-self.length // PAGE))
        return PagedCache(self.config, slots, self.length, pages, self.device, self.precision)

    def run(self, cache: PagedCache, tokens: Ids, slots: Places, positions: Places, wanted: Places) -> Tensor:
        """As `CachedDecoder.run`: the logits after the tokens at `wanted`, `[W, V]`, on the device."""
        stream, places, at = (torch.from_numpy(one.astype("int64")).to(self.device) for one in (tokens, positions, wanted))
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            hidden = self.network(stream, places, cache.attending(slots, positions))
        return self.network.logits(hidden[at])


def blank(network: Decoder, precision: torch.dtype) -> Decoder:
    """A network of the same shape on the same device, without weights yet; products are in this precision, the rest is as it is there."""
    with torch.device("meta"):
        made = Decoder(network.config)
    dtypes = {name: parameter.dtype for name, parameter in network.named_parameters()}
    linear = {f"{name}.weight" for name, module in made.named_modules() if isinstance(module, nn.Linear) and name != "lm_head"}
    for name, parameter in made.named_parameters():  # before they take memory
        parameter.requires_grad_(False)
        parameter.data = parameter.data.to(precision if name in linear else dtypes[name])
    return made.to_empty(device=network.head.device)
