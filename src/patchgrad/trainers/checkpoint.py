"""A trainer's checkpoint: a model folder that transformers opens, the optimiser's state, and how many updates the weights have seen.

A model that is trained by adapters is not written again at each step: the folder has them in `adapter`, and the network's shape beside it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from patchgrad.contracts import Weights
from patchgrad.errors import StoreError
from patchgrad.networks import folder as folders
from patchgrad.networks import lora as adapters
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lora import Lora
from patchgrad.trainers.optimisers import Optimiser


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters that are trained, the name of the model below them, if it has one, and by what that is known again."""

    lora: Lora
    base: str
    known_by: str


def save(folder: Path, network: Decoder, weights: Weights, optimiser: Optimiser, version: int, adapted: Adapters | None) -> None:
    """Writes a model folder, `optimiser.safetensors` and `trainer.json`; of a named model with adapters these alone, as peft does."""
    if adapted:
        adapters.save(folder / folders.ADAPTER, adapters.adapters(network), adapted.lora, adapted.base, adapted.known_by)
    if adapted and adapted.base:
        folders.describe(folder, network.config)
    else:
        folders.save(folder, network.config, weights)
    save_file({name: tensor.contiguous() for name, tensor in optimiser.state().items()}, folder / "optimiser.safetensors")
    (folder / "trainer.json").write_text(json.dumps({"version": version}) + "\n")


def load(folder: Path, network: Decoder, optimiser: Optimiser, adapted: Adapters | None) -> int:
    """Takes over what `save` wrote, and gives the version; with adapters only those: the network below them is that of the base."""
    version = _version(folder)
    try:
        state = load_file(folder / "optimiser.safetensors")
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{folder} is no checkpoint of a trainer: it lacks a whole optimiser.safetensors") from error
    if folders.shape(folder) != network.config:
        raise StoreError(f"{folder} holds a network of another shape than this trainer's")
    if adapted:
        adapters.load(folder / folders.ADAPTER, network)
    else:
        network.load_state_dict(folders.load(folder).state_dict())
    try:
        optimiser.restore(state)
    except KeyError as error:
        raise StoreError(f"{folder} was saved with another optimiser: it has no {error}") from error
    return version


def version_of(folder: Path) -> int:
    """How many updates the weights in a checkpoint's folder have seen; 0 in one that no trainer wrote, `StoreError` for a damaged one."""
    return _version(folder) if (folder / "trainer.json").exists() else 0


def _version(folder: Path) -> int:
    try:
        return int(json.loads((folder / "trainer.json").read_text())["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{folder} is no checkpoint of a trainer: it lacks a whole trainer.json") from error
