"""A training step on tensors without data: what it will hold, before anything is loaded.

The network, the backward pass and the optimiser are those that train (`networks/decoder.py`, `trainers/optimisers.py`), run on PyTorch's
fake tensors, which have a shape and no memory; what is alive is added up as it comes and goes. So the figure changes with the code, and
there is no formula beside it that could drift. Layers are alike: a rehearsal of a few tells what all of them hold. The backward pass
gives back what a layer keeps and takes room for its gradients, so most is held where it begins or where it ends. Each of the two grows
evenly with layers, and the greater of them does not.
"""

from __future__ import annotations

import fnmatch
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from patchgrad.networks.decoder import Decoder, DecoderConfig, Norm
from patchgrad.networks.lora import Adapted, Lora, adapt, reduce
from patchgrad.networks.packed import Attend, Rows, within
from patchgrad.networks.prefixes import Node
from patchgrad.networks.scoring import wide
from patchgrad.trainers.optimisers import Optimiser

LAYER = "model.layers."
FEW, MORE = 5, 7  # layers of which a difference is taken: on each side of the middle more than the last one, which computes less
TURN = 32  # tokens that are trained in a run
RUNS = 16  # such runs in a rehearsal: each costs calls of its own, and hundreds of them hold no more than a few that are longer
WORKSPACES = 64 << 20  # cuBLAS takes 32 MiB on a Hopper for each thread that multiplies: of the forward and of the backward pass
SCORED = 1024  # tokens whose log-probabilities are rehearsed: more of them meet the vocabulary in tiles of the same size


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a training step by what they are for.

    `weights` and `states`, the optimiser's, are there all the time; `gradients` are those of one batch; `passing` is the most that one
    pack's forward and backward pass hold beside all of these, and `stepping` the most that the optimiser does while it steps.
    """

    weights: int
    states: int
    gradients: int
    passing: int
    stepping: int

    def peak(self, workers: int = 1, several: bool = True) -> int:
        """The most that is held at once, where each worker passes a pack beside the gradients of its `several` packs before.

        Of weights and states of 10 and 20, gradients of 10, passing 50 and stepping 5, one worker's peak is 90, and two workers' 150.
        """
        passing = workers * (self.passing + several * self.gradients)
        return self.weights + self.states + max(passing, workers * self.gradients + self.stepping)


@dataclass(frozen=True, slots=True)
class Step:
    """A step whose packs have so many tokens, in one sequence, of which so many are trained, in runs of about `turn`.

    With `offload` the optimiser is not on the device. With `fused` attention is one call of a kernel, as on a GPU, and not in blocks.
    """

    tokens: int
    trained: int
    precision: str = "float32"
    gradient_checkpointing: bool = False
    lora: Lora | None = None
    frozen: Sequence[str] = ()
    offload: bool = False
    fused: bool = False
    turn: int = TURN


def rehearse(shape: DecoderConfig, optimiser: Callable[[Mapping[str, Tensor]], Optimiser], step: Step) -> Footprint:
    """The footprint of a step; with `offload` it is that of the device.

    Layers are alike where the same is frozen of them, so of each run of such layers a few are rehearsed, and then more of them.
    """
    runs = _runs(shape, step)
    counts = [count if count <= MORE else FEW for count, _ in runs]
    told = {name: float(value) for name, value in _rehearsed(*_cut(shape, step, runs, counts), optimiser).items()}
    few = dict(told)
    for place, (count, _) in enumerate(runs):
        if count > MORE:
            more = _rehearsed(*_cut(shape, step, runs, [*counts[:place], MORE, *counts[place + 1 :]]), optimiser)
            for name in told:
                told[name] += (count - FEW) / (MORE - FEW) * (more[name] - few[name])
    passing = max(told.pop("beginning"), told.pop("ending"))
    return Footprint(passing=round(passing), **{name: round(value) for name, value in told.items()})


def _runs(shape: DecoderConfig, step: Step) -> list[tuple[int, frozenset[str]]]:
    """Layers one after the other of which the same is frozen: how many, and the names of it within a layer."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        one = Decoder(replace(shape, layers=1, windows=shape.windows[:1]))
        names = [name for name, _ in (adapt(one, step.lora) if step.lora else one).named_parameters()]
    inside = [name.removeprefix(f"{LAYER}0.") for name in names if name.startswith(f"{LAYER}0.")]
    kinds = (frozenset(name for name in inside if _frozen(f"{LAYER}{i}.{name}", step)) for i in range(shape.layers))
    return [(len(list(same)), kind) for kind, same in itertools.groupby(kinds)]


def _cut(shape: DecoderConfig, step: Step, runs: Sequence[tuple[int, frozenset[str]]], counts: Sequence[int]) -> tuple[DecoderConfig, Step]:
    """The same with so many layers of each run."""
    kinds = [kind for (_, kind), count in zip(runs, counts, strict=True) for _ in range(count)]
    inside = [f"{LAYER}{i}.{name}" for i, kind in enumerate(kinds) for name in sorted(kind)]
    besides = [pattern for pattern in step.frozen if not pattern.startswith(LAYER)]
    return replace(shape, layers=len(kinds), windows=shape.windows[: len(kinds)]), replace(step, frozen=(*besides, *inside))


def _frozen(name: str, step: Step) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in step.frozen)


def _rehearsed(shape: DecoderConfig, step: Step, optimiser: Callable[[Mapping[str, Tensor]], Optimiser]) -> dict[str, int]:
    """Bytes by the fields of a footprint, `passing` as what is held until half of the backward pass is done, and from there on."""
    kept = torch.bfloat16 if step.precision == "bfloat16" else torch.float32
    step = replace(step, turn=max(step.turn, step.trained // RUNS))
    with FakeTensorMode(allow_non_fake_inputs=True), Alive() as alive:
        network = Decoder(shape)
        if step.lora:
            adapt(network, step.lora, kept)
        elif step.offload:
            reduce(network, kept)
        for module in [*network.modules()] if step.fused else []:
            for name, child in module.named_children():
                if isinstance(child, Norm):
                    setattr(module, name, _Norm(child))
        weights = alive.bytes
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and not _frozen(name, step))
        for module in network.modules():
            if isinstance(module, Adapted):
                module.resting = not module.lora_B.requires_grad  # as they begin, they add nothing
        parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
        steps = None if step.offload else optimiser(parameters)
        states = alive.bytes - weights
        alive.most = before = alive.bytes
        attend = _kernel if step.fused else None
        halfway = _halfway(network, alive)
        gradients = passed(network, parameters, (step.tokens,), step, attend, min(step.trained, SCORED))
        beginning, ending, held = max(halfway, default=alive.most) - before, alive.most - before, alive.bytes - before
        alive.most = alive.bytes
        if steps:
            steps.step(gradients, 1e-3)
        stepping = alive.most - before - held
        room = WORKSPACES if step.fused else 0
        moments = {"beginning": beginning + room, "ending": ending + room}
        return moments | {"weights": weights, "states": states, "gradients": sum(map(_wide, gradients.values())), "stepping": stepping}


def _halfway(network: Decoder, alive: Alive) -> list[int]:
    """Gets the most that was held until the backward pass has come to the middle of the layers that are trained; counts anew from there."""
    seen: list[int] = []

    def half(_: Tensor) -> None:
        if not seen:
            seen.append(alive.most)
            alive.most = alive.bytes

    def watched(layer: nn.Module, given: Any, out: Tensor) -> None:
        if out.requires_grad:
            register_multi_grad_hook((out,), half, mode="any")

    layers = [*network.model.layers]
    trained = [number for number, layer in enumerate(layers) if any(parameter.requires_grad for parameter in layer.parameters())]
    if trained:
        layers[(trained[0] + len(layers)) // 2].register_forward_hook(watched)
    return seen


def _wide(gradient: Tensor) -> int:
    return int(wide(gradient).nbytes)


def passed(
    network: Decoder,
    parameters: Mapping[str, Tensor],
    lengths: Sequence[int],
    step: Step,
    attend: Attend | None = None,
    scored: int = 0,
) -> dict[str, Tensor]:
    """Gradients after one pack of sequences of these lengths and no meaning; of the tokens that are trained so many are `scored`, or all.

    Tokens see those before them in their sequence, and the last layer computes those that are trained; or they see what `attend` says,
    as on a GPU, and it computes all.
    """
    stream, nodes = torch.zeros(sum(lengths), dtype=torch.int64), [Node(length) for length in lengths]
    positions, said = torch.cat([torch.arange(length) for length in lengths]), spoken(len(stream), step.trained, step.turn)
    own = None if attend or len(said) == len(stream) else torch.from_numpy(said)
    with torch.autocast("cpu", torch.bfloat16, enabled=step.precision == "bfloat16"):
        hidden = network.forward(stream, positions, attend or within(nodes, said), step.gradient_checkpointing, own)
        read = hidden[torch.arange(step.trained)][: scored or step.trained]
        logprobs, _ = network.logprobs(read, stream[: len(read)])
    return dict(zip(parameters, torch.autograd.grad(logprobs.sum(), list(parameters.values())), strict=True))


def spoken(tokens: int, trained: int, turn: int = TURN) -> Rows:
    """So many of the tokens, in runs of about `turn` that lie as far apart as they can: `[S]`, ascending.

    Of 512 tokens 128 are the last 32 of each quarter, and of 6 tokens 2 the last two.
    """
    parts = max(1, -(-trained // turn))
    sizes = map(len, np.array_split(np.arange(trained), parts))
    return np.concatenate([part[len(part) - size :] for part, size in zip(np.array_split(np.arange(tokens), parts), sizes, strict=True)])


def _kernel(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention as a GPU's kernel holds it: in `float32` each head of the queries has keys and values of its own (`networks/packed.py`)."""
    shared = q.shape[1] // k.shape[1] if q.dtype == torch.float32 else 1
    k, v = (part.repeat_interleave(shared, 1) if shared > 1 else part for part in (k, v))
    held: Callable[[Tensor, Tensor, Tensor], Tensor] = _Held.apply
    return held(q, k, v)


class _Held(torch.autograd.Function):
    """What a fused kernel of attention holds, without what it computes: its arguments, means, and sums of exponentials `[H, N]`."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        means, sums = torch.empty_like(q), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
        ctx.save_for_backward(q, k, v, means, sums)
        return means

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.empty_like(part) for part in ctx.saved_tensors[:3])


class _Norm(nn.Module):
    """A norm as a GPU's kernel holds it; a CPU makes it of operations of which one keeps its whole result for the weight's gradient."""

    def __init__(self, norm: Norm) -> None:
        super().__init__()
        self.weight = norm.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.given(x, self.weight)

    def given(self, x: Tensor, weight: Tensor) -> Tensor:
        normed: Callable[[Tensor, Tensor], Tensor] = _Normed.apply
        return normed(x.to(weight.dtype), weight)


class _Normed(torch.autograd.Function):
    """What a norm of `x [..., d]` holds there: its arguments, and a number a row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, x.new_empty((*x.shape[:-1], 1)))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return tuple(
            torch.empty_like(part) if needed else None for part, needed in zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        )


def idle(gradient_checkpointing: bool) -> int:
    """Bytes that this process has resident after a step of next to nothing: the interpreter, what was imported, kernels' own memory."""
    network = Decoder(DecoderConfig(64, hidden=64, layers=1, heads=1, kv_heads=1, head_size=64, intermediate=64))
    passed(network, dict(network.named_parameters()), (64,), Step(64, 8, gradient_checkpointing=gradient_checkpointing))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) * 1024


class Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not type it
    """Counts the `bytes` of all tensors that are alive and were made under it, and the `most` that there were since that was set."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.most = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for found in tree_iter(out):
            if isinstance(found, Tensor):
                self._see(found)
        return out

    def _see(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()  # of which views have one
        if storage._cdata not in self._known:
            self._known[storage._cdata] = storage.nbytes()
            self.bytes += storage.nbytes()
            self.most = max(self.most, self.bytes)
            weakref.finalize(storage, self._gone, storage._cdata)

    def _gone(self, key: int) -> None:
        self.bytes -= self._known.pop(key)
