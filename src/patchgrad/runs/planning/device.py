"""Where a recipe computes."""

from __future__ import annotations

import os

import torch

from patchgrad.errors import ConfigError
from patchgrad.recipes.recipe import Recipe


def supported(recipe: Recipe) -> None:
    """Raises `ConfigError` for a recipe that takes more GPUs than the machines have that it is sized for."""
    machine = recipe.machine
    if not machine.gpus:
        return
    train, sample = max(1, recipe.ranks), recipe.policy.replicas * recipe.policy.split
    if train + sample > machine.nodes * machine.gpus:
        raise ConfigError(
            f"{recipe.name} takes {train} GPUs to train and {sample} to sample, and is sized for {machine.nodes} x {machine.gpus}: lower "
            "trainer.ranks or policy.replicas, or raise machine.nodes or machine.gpus"
        )


def device(gpus: int) -> torch.device:
    """The GPU if a recipe asks for one; `ConfigError` where torch sees none.

    Torch's allocator then grows its segments unless it is told otherwise: long sequences left holes of up to 40 % of what tensors took.
    """
    if gpus and not torch.cuda.is_available():
        raise ConfigError(
            "machine.gpus asks for a GPU and torch sees none: install a build of torch for yours, as in "
            'make install TORCH="torch==2.13.0+cu130", or set machine.gpus to 0'
        )
    if gpus and "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")  # is read when memory is first asked for
    return torch.device("cuda" if gpus else "cpu")


def spare() -> int:
    """Bytes of the GPU's memory that are free or that this process has already."""
    device(1)
    return int(torch.cuda.mem_get_info()[0]) + torch.cuda.memory_reserved()
