"""Weights and optimiser of all ranks as files, and back on any number of ranks.

Weights are those of a model folder, written by rank 0 as they are gathered, one tensor after the other. The optimiser's state is written by
all ranks at once, each its rows (`torch.distributed.checkpoint`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load as load_rows
from torch.distributed.checkpoint.state_dict_saver import save as save_rows
from torch.distributed.tensor import DTensor

from patchgrad.errors import StoreError
from patchgrad.networks import folder as folders
from patchgrad.networks import lora as adapters
from patchgrad.networks import shards
from patchgrad.networks.lora import Adapted, rest
from patchgrad.networks.slices import Slices
from patchgrad.trainers.checkpoint import version_of
from patchgrad.trainers.sharded.network import fill, local, whole
from patchgrad.trainers.sharded.rank import Rank

OPTIMISER = "optimiser"

PAUSES = (0, 1, 2, 4)
"""Seconds before each look for a folder, since a file system that machines share may tell of a new one late."""


@torch.no_grad()
def publish(rank: Rank, folder: Path) -> None:
    """Writes the weights by their names in transformers, adapters merged, as safetensors."""
    if dist.get_rank():
        for _ in _merged(rank):
            pass
    else:
        folder.mkdir(parents=True, exist_ok=True)
        shards.write(folder, ((name, tensor.cpu()) for name, tensor in _merged(rank)))


def save(rank: Rank, folder: Path, version: int, base: str, known_by: str) -> None:
    """Writes a checkpoint that `load` and transformers open; of a named model with adapters these alone."""
    spec, first = rank.spec, not dist.get_rank()
    if spec.lora:
        found = {name: whole(p.detach()).cpu() for name, p in rank.parameters.items() if _of_adapter(name)}
        if first:
            adapters.save(folder / folders.ADAPTER, found, spec.lora, base, known_by)
    if not (spec.lora and base):
        publish(rank, folder)
    if first:
        folder.mkdir(parents=True, exist_ok=True)
        folders.describe(folder, spec.config)
        (folder / "trainer.json").write_text(json.dumps({"version": version}) + "\n")
    _seen_by_all(rank, folder)
    save_rows(_state(rank), checkpoint_id=folder / OPTIMISER, process_group=rank.place.group)


def load(rank: Rank, folder: Path) -> int:
    """Takes over what `save` wrote on any number of ranks, and gives the version."""
    _seen_by_all(rank, folder)
    version = version_of(folder)
    if rank.spec.lora:
        named = adapters.read(folder / folders.ADAPTER)
        fill(rank.parameters, lambda name, first, last: named[name][first:last], rank.place.group, only=_of_adapter)
    else:
        with Slices(folder) as weights:
            fill(rank.parameters, weights.rows, rank.place.group)
    rest(rank.network)
    state = _state(rank)
    try:
        load_rows(state, checkpoint_id=folder / OPTIMISER, process_group=rank.place.group)
    except (CheckpointException, OSError) as error:
        raise StoreError(f"{folder} was not saved by a trainer of several ranks with the same optimiser") from error
    rank.optimiser.restore({name: local(tensor) for name, tensor in state.items()})
    return version


def _seen_by_all(rank: Rank, folder: Path) -> None:
    """Raises `StoreError` where a rank is on a machine that does not see the folder; it would write its rows where nobody finds them."""
    for pause in PAUSES:
        time.sleep(pause)
        if rank.place.sees(folder):
            return
    raise StoreError(f"{folder} is not seen by every machine that trains: put the run's folder on a file system that all of them share")


def _merged(rank: Rank) -> Iterator[tuple[str, Tensor]]:
    """Every weight whole, on all ranks, as `networks.lora.Merged` computes it."""
    scales = {name: module.scale for name, module in rank.network.named_modules() if isinstance(module, Adapted)}
    for name, parameter in rank.parameters.items():
        if _of_adapter(name):
            continue
        tensor, matrix = whole(parameter.detach()), name.removesuffix(".weight")
        if matrix in scales:
            a, b = (whole(rank.parameters[f"{matrix}.{part}"].detach()) for part in ("lora_A", "lora_B"))
            tensor = tensor + b @ a * scales[matrix]
        yield name, tensor


def _state(rank: Rank) -> dict[str, Tensor]:
    """The optimiser's state as rows of whole tensors: `first.model.norm.weight` is cut as `model.norm.weight` is."""
    return {key: _rows(tensor, rank.parameters.get(key.partition(".")[2])) for key, tensor in rank.optimiser.state().items()}


def _rows(tensor: Tensor, like: Tensor | None) -> Tensor:
    if not isinstance(like, DTensor):
        return tensor
    return DTensor.from_local(tensor, like.device_mesh, like.placements, shape=like.shape, stride=like.stride())


def _of_adapter(name: str) -> bool:
    return name.endswith((".lora_A", ".lora_B"))
