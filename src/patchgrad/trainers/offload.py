"""An optimiser in host memory, so that a GPU holds only what it computes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from patchgrad.trainers.muon import Optimiser, Spread


class Offloaded:
    """Steps `float32` copies of the parameters by another optimiser, both in host memory, and writes them back (ZeRO-Offload, 2101.06840).

    Of a parameter in `bfloat16` the copy keeps the bits that a small step changes. Of 8 billion parameters and AdamW's states the device
    has 16 GB and host memory 96, all of which the device would have otherwise.
    """

    def __init__(self, parameters: Mapping[str, Tensor], make: Callable[[Mapping[str, Tensor]], Optimiser]) -> None:
        self.parameters = dict(parameters)
        self.copies = {name: p.detach().to("cpu", torch.float32, copy=True) for name, p in parameters.items()}
        self.optimiser = make(self.copies)

    def step(self, gradients: Mapping[str, Tensor], rate: float, spread: Spread = map) -> None:
        self.optimiser.step({name: gradient.to("cpu", torch.float32) for name, gradient in gradients.items()}, rate, spread)
        self._write_back()

    def state(self) -> dict[str, Tensor]:
        return self.optimiser.state() | {f"copy.{name}": tensor for name, tensor in self.copies.items()}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.copies.items():
            tensor.copy_(state[f"copy.{name}"])
        self.optimiser.restore(state)
        self._write_back()

    @torch.no_grad()
    def _write_back(self) -> None:
        for name, parameter in self.parameters.items():
            parameter.copy_(self.copies[name])
