"""Muon and AdamW: each takes gradients by name, changes parameters in place, and gives its whole state as named tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from patchgrad.networks.rounding import multiplies_bfloat16, root

Spread = Callable[[Callable[[Tensor], Tensor], Iterable[Tensor]], Iterable[Tensor]]

STEPS = 5
TOGETHER = 4  # matrices of one shape that are orthogonalised in one piece of work
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Optimiser(Protocol):
    """`state` and `restore` are exact: a restored optimiser makes the same next step, bit for bit.

    `spread` maps a function over independent pieces of work; a thread pool's `map` uses more than one core.
    """

    def step(self, gradients: Mapping[str, Tensor], rate: float, spread: Spread = map) -> None: ...
    def state(self) -> dict[str, Tensor]: ...
    def restore(self, state: Mapping[str, Tensor]) -> None: ...


class AdamW:
    """Adam with decoupled weight decay (1711.05101); decay acts on matrices only."""

    def __init__(
        self, parameters: Mapping[str, Tensor], *, betas: tuple[float, float] = (0.9, 0.95), epsilon: float = 1e-8, decay: float = 0.0
    ) -> None:
        self.parameters, self.betas, self.epsilon, self.decay = dict(parameters), betas, epsilon, decay
        self.first = {name: torch.zeros_like(p, requires_grad=False) for name, p in parameters.items()}
        self.second = {name: torch.zeros_like(p, requires_grad=False) for name, p in parameters.items()}
        self.steps = 0

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], rate: float, spread: Spread = map) -> None:
        self.steps += 1
        one, two = self.betas
        correction = (1 - two**self.steps) ** 0.5
        for name, parameter in self.parameters.items():
            gradient, first, second = gradients[name], self.first[name], self.second[name]
            first.lerp_(gradient, 1 - one)
            second.mul_(two).addcmul_(gradient, gradient, value=1 - two)
            if self.decay and parameter.dim() > 1:
                parameter.mul_(1 - rate * self.decay)
            denominator = root(second).div_(correction).add_(self.epsilon)
            parameter.addcdiv_(first, denominator, value=-rate / (1 - one**self.steps))

    def state(self) -> dict[str, Tensor]:
        return (
            {f"first.{name}": tensor for name, tensor in self.first.items()}
            | {f"second.{name}": tensor for name, tensor in self.second.items()}
            | {"steps": torch.tensor(self.steps)}
        )

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name in self.parameters:
            self.first[name].copy_(state[f"first.{name}"])
            self.second[name].copy_(state[f"second.{name}"])
        self.steps = int(state["steps"])


class Muon:
    """Momentum made orthogonal (Jordan et al. 2024, kellerjordan.github.io/posts/muon) for hidden matrices; AdamW for the rest.

    A matrix's Nesterov momentum M is replaced by an approximate U V^T of its SVD, scaled by 0.2 sqrt(max(rows, columns)), so that
    an update has AdamW's usual root mean square and one learning rate serves both (2502.16982). No weight decay. Matrices of one
    shape are orthogonalised together. Embeddings, the head, norms and biases go to `adamw`.
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], *, momentum: float = 0.95, adamw: Callable[[Mapping[str, Tensor]], AdamW] = AdamW
    ) -> None:
        self.momentum = momentum
        self.matrices = {name: p for name, p in parameters.items() if p.dim() == 2 and ".layers." in name}
        self.rest = adamw({name: p for name, p in parameters.items() if name not in self.matrices})
        self.buffers = {name: torch.zeros_like(p, requires_grad=False) for name, p in self.matrices.items()}
        self.sized({name: p.shape for name, p in self.matrices.items()})

    def sized(self, sizes: Mapping[str, torch.Size]) -> None:
        """Its matrices have these sizes; a rank of several, whose parameters are rows of them, says so before the first step."""
        self.sizes = {name: sizes[name] for name in self.matrices}
        alike: dict[torch.Size, list[str]] = defaultdict(list)
        for name, size in self.sizes.items():
            alike[size].append(name)
        self.pieces = [names[i : i + TOGETHER] for names in alike.values() for i in range(0, len(names), TOGETHER)]

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], rate: float, spread: Spread = map) -> None:
        for name, buffer in self.buffers.items():
            buffer.lerp_(gradients[name], 1 - self.momentum)
        stacks = (torch.stack([gradients[name].lerp(self.buffers[name], self.momentum) for name in names]) for names in self.pieces)
        for names, updates in zip(self.pieces, spread(orthogonal, stacks), strict=True):
            for name, update in zip(names, updates, strict=True):
                self.matrices[name].add_(update, alpha=-rate * 0.2 * max(self.sizes[name]) ** 0.5)
        self.rest.step(gradients, rate)

    def state(self) -> dict[str, Tensor]:
        return {f"momentum.{name}": tensor for name, tensor in self.buffers.items()} | self.rest.state()

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        for name, buffer in self.buffers.items():
            buffer.copy_(state[f"momentum.{name}"])
        self.rest.restore(state)


@torch.no_grad()
def orthogonal(matrices: Tensor) -> Tensor:
    """A quintic Newton-Schulz iteration that drives all singular values of `[N, rows, columns]` to about 1 (0.7 to 1.2).

    In `bfloat16`, as its author has it, where that is faster.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    quick = matrices.dtype == torch.float32 and (matrices.is_cuda or multiplies_bfloat16())
    x = (matrices.transpose(-2, -1) if tall else matrices).to(torch.bfloat16 if quick else matrices.dtype)
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(STEPS):
        gram = x @ x.transpose(-2, -1)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    out: Tensor = (x.transpose(-2, -1) if tall else x).to(matrices.dtype)
    return out
