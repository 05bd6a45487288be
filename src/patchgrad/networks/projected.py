"""Linear layers that read what a cheap function gives, and keep no more of it than the function's own arguments.

Autograd keeps what every product has read: a norm's result, a copy of it for each product that rounds it, a gate and its activation. The
backward pass makes them again here, and what is held until then is half or less. What is computed is what autograd would compute; only the
gradients of what several products read are summed in `float32`, whatever the products round to.

Axes: R rows that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Given = Callable[..., Tensor]
Parts = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]
"""Matrix, bias, and the adapters A and B, if they add something."""


class Adapting(Protocol):
    """A linear layer with low-rank adapters (`networks.lora.Adapted`)."""

    @property
    def parts(self) -> Parts: ...
    @property
    def scale(self) -> float: ...


Reader = tuple[nn.Linear | Adapting, Tensor | None]
"""A layer, and which rows it reads; all without."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """x W' + bias + scale (x A') B', all in one precision."""

    weight: Tensor
    bias: Tensor | None
    adapters: tuple[Tensor, Tensor] | None
    scale: float

    @classmethod
    def of(cls, parts: Parts, scale: float, dtype: torch.dtype) -> _Layer:
        weight, bias, a, b = parts
        adapters = None if a is None or b is None else (a.to(dtype), b.to(dtype))
        return cls(weight.to(dtype), None if bias is None else bias.to(dtype), adapters, scale)

    def __call__(self, read: Tensor) -> Tensor:
        """The few columns of A are scaled, and what B makes of them is added as it is made: `out` is much wider."""
        out = F.linear(read, self.weight, self.bias)
        return torch.addmm(out, self._few(read, self.adapters[0]), self.adapters[1].T) if self.adapters else out

    def back(self, to_out: Tensor) -> Tensor:
        """The gradient of what was read."""
        to_read = to_out @ self.weight
        return to_read.addmm_(self._to_few(to_out, self.adapters[1]), self.adapters[0]) if self.adapters else to_read

    def of_parts(self, read: Tensor, to_out: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        """The gradients of matrix, bias, A and B, where they are `wanted`."""
        found: list[Tensor | None] = [None] * 4
        if wanted[0]:
            found[0] = to_out.T @ read
        if wanted[1]:
            found[1] = to_out.sum(0)
        if self.adapters and wanted[2]:
            found[2] = self._to_few(to_out, self.adapters[1]).T @ read
        if self.adapters and wanted[3]:
            found[3] = to_out.T @ self._few(read, self.adapters[0])
        return found

    def _few(self, read: Tensor, a: Tensor) -> Tensor:
        return F.linear(read, a) * self.scale

    def _to_few(self, to_out: Tensor, b: Tensor) -> Tensor:
        return (to_out @ b) * self.scale


def projected(given: Given, arguments: Sequence[Tensor], readers: Sequence[Reader]) -> tuple[Tensor, ...]:
    """What each of these layers makes of `given(*arguments)`, `[R, in] -> [R, out]`; under autocast in its precision.

    With `projected(norm.given, (x, norm.weight), [(q_proj, None)])` the backward pass finds `x` and `norm.weight`, makes
    the norm again, and needs neither what it gave nor a rounded copy of that.
    """
    kind = arguments[0].device.type
    rounds = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    told = [_told(layer) for layer, _ in readers]
    scales, parts = [scale for _, scale in told], [part for parts, _ in told for part in parts]
    apply: Callable[..., tuple[Tensor, ...]] = _Projected.apply
    with torch.autocast(kind, enabled=False):
        return apply(given, rounds, scales, [rows for _, rows in readers], len(arguments), *arguments, *parts)


def plain(x: Tensor) -> Tensor:
    """What layers read as it is."""
    return x


def _told(layer: nn.Linear | Adapting) -> tuple[Parts, float]:
    return ((layer.weight, layer.bias, None, None), 1.0) if isinstance(layer, nn.Linear) else (layer.parts, layer.scale)


class _Projected(torch.autograd.Function):
    """`projected`, of tensors one after the other, as autograd wants them."""

    @staticmethod
    def forward(
        ctx: Any,
        given: Given,
        rounds: torch.dtype | None,
        scales: Sequence[float],
        rows: Sequence[Tensor | None],
        count: int,
        *tensors: Tensor | None,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*tensors)
        ctx.told = given, rounds, scales, rows, count
        read = given(*tensors[:count])
        read = read if rounds is None else read.to(rounds)
        return tuple(layer(_of(read, some)) for layer, some in zip(_layers(tensors[count:], scales, read.dtype), rows, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        given, rounds, scales, rows, count = ctx.told
        wanted, tensors = ctx.needs_input_grad[5:], ctx.saved_tensors
        arguments = [one.detach().requires_grad_(needs) for one, needs in zip(tensors[:count], wanted, strict=False)]
        with torch.enable_grad():
            made = given(*arguments)
        read = made.detach() if rounds is None else made.detach().to(rounds)
        layers = _layers(tensors[count:], scales, read.dtype)
        to_parts: list[Tensor | None] = []
        for number, (layer, some, to_out) in enumerate(zip(layers, rows, gradients, strict=True)):
            to_parts += layer.of_parts(_of(read, some), to_out, wanted[count + 4 * number :][:4])
        del read
        to_arguments: list[Tensor | None] = [None] * count
        if any(wanted[:count]):
            some_wanted = [number for number in range(count) if wanted[number]]
            found = torch.autograd.grad(made, [arguments[number] for number in some_wanted], _summed(made, layers, rows, gradients))
            for number, gradient in zip(some_wanted, found, strict=True):
                to_arguments[number] = gradient
        return (None,) * 5 + (*to_arguments, *to_parts)


def _summed(made: Tensor, layers: Sequence[_Layer], rows: Sequence[Tensor | None], gradients: Sequence[Tensor]) -> Tensor:
    """The gradient of what all layers read."""
    if len(layers) == 1 and rows[0] is None:
        return layers[0].back(gradients[0]).to(made.dtype)
    total = torch.zeros(made.shape, dtype=torch.promote_types(made.dtype, torch.float32), device=made.device)
    for layer, some, to_out in zip(layers, rows, gradients, strict=True):
        part = layer.back(to_out).to(total.dtype)
        total = total.add_(part) if some is None else total.index_add_(0, some, part)
    return total.to(made.dtype)


def _layers(parts: Sequence[Any], scales: Sequence[float], dtype: torch.dtype) -> list[_Layer]:
    return [
        _Layer.of((parts[i], parts[i + 1], parts[i + 2], parts[i + 3]), scale, dtype)
        for i, scale in zip(range(0, len(parts), 4), scales, strict=True)
    ]


def _of(read: Tensor, rows: Tensor | None) -> Tensor:
    """These rows of it, or all."""
    return read if rows is None else read.index_select(0, rows)
