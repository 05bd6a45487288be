"""Low-rank adapters (LoRA, 2106.09685): a matrix W stays, and W + (alpha / r) B A is learned, A `[r, in]` and B `[out, r]`.

B begins as zeros, so that an adapted network computes what it did. Adapters are written as peft writes them, and opened by it; the
adapters are a few lines over our own network, and peft would bring accelerate and transformers to every trainer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from patchgrad.errors import StoreError
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.projected import Parts, plain, projected
from patchgrad.values import digest

PEFT = "base_model.model."  # what peft puts before a parameter's name
WEIGHTS, CONFIG, BASE = "adapter_model.safetensors", "adapter_config.json", "base.json"
LOOKED_AT = 64  # numbers of each tensor, by which a model is known again


@dataclass(frozen=True, slots=True)
class Lora:
    """Adapters of a `rank` on all linear layers of these names; `alpha / rank` multiplies what they add."""

    rank: int
    alpha: float = 32.0
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

    @property
    def scale(self) -> float:
        return self.alpha / self.rank


class Adapted(nn.Module):
    """A linear layer and what is added to it, unless it is `resting`. Its matrix keeps the name that it had, so a state dict still is a
    checkpoint's."""

    resting = False

    def __init__(self, linear: nn.Linear, lora: Lora, generator: torch.Generator) -> None:
        super().__init__()
        self.weight, self.bias, self.scale = linear.weight, linear.bias, lora.scale
        out, into = linear.weight.shape
        device = linear.weight.device
        self.lora_A = nn.Parameter(_drawn(lora.rank, into, generator).to(device))
        self.lora_B = nn.Parameter(torch.zeros(out, lora.rank, device=device))

    @property
    def parts(self) -> Parts:
        """Matrix, bias, and the adapters if they add something."""
        return (self.weight, self.bias, *((None, None) if self.resting else (self.lora_A, self.lora_B)))

    def forward(self, x: Tensor) -> Tensor:
        """`[T, in] -> [T, out]`."""
        return projected(plain, (x,), ((self, None),))[0]


def adapt(network: Decoder, lora: Lora, precision: torch.dtype = torch.float32, seed: int = 0) -> Decoder:
    """Puts adapters on a network, in place: its own parameters want no gradient any more, the adapters' are what is trained.

    Its matrices are kept in this precision from then on.
    """
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    reduce(network, precision)
    for module in list(network.modules()):
        for name, child in module.named_children():
            if name in lora.targets and isinstance(child, nn.Linear):
                setattr(module, name, Adapted(child, lora, generator))
    return network


def _drawn(rank: int, into: int, generator: torch.Generator) -> Tensor:
    bound = 1 / math.sqrt(into)  # what peft's initialisation comes to
    return torch.empty(rank, into, device="cpu").uniform_(-bound, bound, generator=generator)


def beginnings(network: nn.Module, seed: int = 0) -> Iterator[tuple[str, Tensor]]:
    """The matrices A that `adapt` gave a network, by name: they are drawn again, for one whose parameters have no memory."""
    generator = torch.Generator().manual_seed(seed)
    for name, module in network.named_modules():
        if isinstance(module, Adapted):
            yield f"{name}.lora_A", _drawn(module.lora_A.shape[0], module.lora_A.shape[1], generator)


def rest(network: nn.Module) -> None:
    """Adapters that are not trained and add nothing are not computed from now on: those of layers that are frozen."""
    for module in network.modules():
        if isinstance(module, Adapted):
            module.resting = not module.lora_B.requires_grad and not module.lora_B.any()


def reduce(network: Decoder, precision: torch.dtype) -> None:
    """Keeps a network's matrices in this precision, in place; norms and biases, which are small, stay as they are."""
    for parameter in network.parameters():
        if parameter.dim() == 2:
            parameter.data = parameter.data.to(precision)


def merged(network: nn.Module) -> Mapping[str, Tensor]:
    """The weights that a plain network needs to compute the same, by their names in transformers; without adapters, the network's own."""
    return Merged(network)


class Merged(Mapping[str, Tensor]):
    """Each weight is merged when it is asked for, so that a model with adapters is never there twice."""

    def __init__(self, network: nn.Module) -> None:
        self._adapted = {f"{name}.weight": module for name, module in network.named_modules() if isinstance(module, Adapted)}
        self._own = {name: parameter.detach() for name, parameter in network.named_parameters() if not _of_adapter(name)}

    @torch.no_grad()
    def __getitem__(self, name: str) -> Tensor:
        module = self._adapted.get(name)
        return self._own[name] + module.lora_B @ module.lora_A * module.scale if module else self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def fingerprint(state: Mapping[str, Tensor]) -> str:
    """By what a model is known again: a digest of `LOOKED_AT` numbers of each tensor, spread over it, and of its shape."""
    parts = []
    for name in sorted(state):
        flat = state[name].detach().flatten()
        at = torch.linspace(0, len(flat) - 1, min(LOOKED_AT, len(flat)), dtype=torch.float64).long()
        parts.append(f"{name} {list(state[name].shape)} {flat[at.to(flat.device)].float().tolist()}")
    return digest(*parts)


def save(folder: Path, tensors: Mapping[str, Tensor], lora: Lora, base: str, known_by: str = "") -> None:
    """Writes adapters by name as peft does, for the model that `base` names and that is `known_by` its fingerprint."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({PEFT + name + ".weight": tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS)
    told: dict[str, Any] = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": list(lora.targets),
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }
    (folder / CONFIG).write_text(json.dumps(told, indent=2) + "\n")
    (folder / BASE).write_text(json.dumps({"model": base, "fingerprint": known_by}) + "\n")


def load(folder: Path, network: nn.Module) -> None:
    """Takes over adapters that `save` or peft wrote; raises `StoreError` if they are not those of this network."""
    named, own = read(folder), adapters(network)
    if {name: tensor.shape for name, tensor in named.items()} != {name: tensor.shape for name, tensor in own.items()}:
        raise StoreError(f"{folder} holds adapters of another rank or for other layers than this network's")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(named[name])


def base_of(folder: Path) -> str:
    """The model that adapters in this folder are for: a folder, or a hub id."""
    return str(_told(folder)["base_model_name_or_path"])


def added(state: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """A model's tensors by their names in transformers, in `float32`, with the adapters of a folder added, as `merged` adds them.

    Raises `StoreError` where the model is another one than they were made for.
    """
    named, told = read(folder), _told(folder)
    known_by = json.loads((folder / BASE).read_text())["fingerprint"] if (folder / BASE).is_file() else ""
    if known_by and known_by != fingerprint(state):
        raise StoreError(f"{folder} holds adapters of the model that {told['base_model_name_or_path']} was, and it is another one now")
    matrices = {name.rpartition(".")[0] for name in named}
    if lost := sorted(matrix for matrix in matrices if f"{matrix}.weight" not in state):
        raise StoreError(f"{folder} holds adapters of {lost[0]}, which the model {told['base_model_name_or_path']} has not")
    whole, scale = {name: tensor.float() for name, tensor in state.items()}, told["lora_alpha"] / told["r"]
    for matrix in matrices:
        whole[f"{matrix}.weight"] = whole[f"{matrix}.weight"] + named[f"{matrix}.lora_B"] @ named[f"{matrix}.lora_A"] * scale
    return whole


def _told(folder: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder} holds no adapters: it lacks a whole {CONFIG}") from error
    return told


def read(folder: Path) -> dict[str, Tensor]:
    """The adapters by name, which is their matrix's and `lora_A` or `lora_B`; `StoreError` for a folder that has none."""
    try:
        found = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{folder} holds no adapters: it lacks a whole {WEIGHTS}") from error
    return {name.removeprefix(PEFT).removesuffix(".weight"): tensor for name, tensor in found.items()}


def adapters(network: nn.Module) -> Mapping[str, Tensor]:
    """The adapters' parameters by name; none in a network that has none."""
    return {name: parameter.detach() for name, parameter in network.named_parameters() if _of_adapter(name)}


def _of_adapter(name: str) -> bool:
    return name.endswith((".lora_A", ".lora_B"))
