"""An optimiser in host memory, so that a GPU holds only what it computes with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from patchgrad.trainers.optimisers import Optimiser, Spread


class Offloaded:
    """Steps `float32` copies of the parameters by another optimiser, both in host memory, and writes them back (ZeRO-Offload, 2101.06840).

    Of a parameter in `bfloat16` the copy keeps the bits that a small step changes. Of 8 billion parameters and AdamW's states the device
    has 16 GB and host memory 96, all of which the device would have otherwise.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        make: Callable[[Mapping[str, Tensor]], Optimiser],
        copies: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> None:
        self.parameters, self._make = dict(parameters), make
        self.copies = {name: copies[name] if name in copies else _copied(p) for name, p in parameters.items()}
        self.optimiser = make(self.copies)

    def fresh(self, parameters: Mapping[str, Tensor]) -> Offloaded:
        """An optimiser of these that has seen nothing; what is exact of them stays exact."""
        return Offloaded(parameters, self._make, self.copies)

    def step(self, gradients: Mapping[str, Tensor], rate: float, spread: Spread = map) -> None:
        """The step; what it maps over pieces is computed where the parameters are, since hosts are slow at products."""
        device = next(iter(self.parameters.values())).device

        def there(work: Callable[[Tensor], Tensor], pieces: Iterable[Tensor]) -> Iterable[Tensor]:
            return (work(piece.to(device)).to("cpu") for piece in pieces)

        self.optimiser.step(_Moved(gradients), rate, spread if device.type == "cpu" else there)
        self._write_back()

    def state(self) -> dict[str, Tensor]:
        return self.optimiser.state() | {f"copy.{name}": tensor for name, tensor in self.copies.items()}

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.copies.items():
            tensor.copy_(state[f"copy.{name}"])
        self.optimiser.restore(state)
        self._write_back()

    def hand_over(self) -> None:
        """The parameters become the copies themselves, exact and in host memory; nothing is stepped afterwards."""
        for name, parameter in self.parameters.items():
            parameter.data = self.copies[name]

    @torch.no_grad()
    def _write_back(self) -> None:
        for name, parameter in self.parameters.items():
            parameter.copy_(self.copies[name])


class _Moved(Mapping[str, Tensor]):
    """Gradients as `float32` in host memory, each moved when it is asked for: all of them at once would take as much as the copies."""

    def __init__(self, gradients: Mapping[str, Tensor]) -> None:
        self._gradients = gradients

    def __getitem__(self, name: str) -> Tensor:
        return self._gradients[name].to("cpu", torch.float32)

    def __iter__(self) -> Iterator[str]:
        return iter(self._gradients)

    def __len__(self) -> int:
        return len(self._gradients)


def _copied(parameter: Tensor) -> Tensor:
    return parameter.detach().to("cpu", torch.float32, copy=True)
