"""How the optimiser steps, and what it computes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from patchgrad.config import require


@dataclass(frozen=True, slots=True)
class Optimiser:
    """`muon` steps matrices by orthogonalised momentum and the rest by AdamW; `adamw` all by AdamW.

    `betas`, `epsilon` and `weight_decay` are AdamW's, in either. `micro_batch_tokens` is the most distinct tokens of one forward pass;
    with `gradient_checkpointing` what happens inside a layer is not kept for the backward pass but computed again there (1604.06174).
    Parameters whose names are among the `frozen`, which may hold `*`, do not move once there is a base policy: AdamW's steps are as long
    for a row of an embedding that hardly matters as for one that does. With a `rank` only adapters of a model are trained (LoRA), which
    add `alpha / rank` times their product; with 0 all of it is. Products are in `precision`; those of a warm-up and of fine-tuning, which
    take no ratio to what the sampler said and bear more rounding, in `imitation`, where that is faster. A
    `precision` of `auto` is `bfloat16` there and on a GPU, and `float32` elsewhere. With `offload` the optimiser's states and the
    parameters' exact values lie in host memory, and a GPU has what it computes with.
    """

    name: Literal["muon", "adamw"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 1.0
    frozen: tuple[str, ...] = ()
    micro_batch_tokens: int = 2560
    gradient_checkpointing: bool = False
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    imitation: Literal["float32", "bfloat16"] = "bfloat16"
    threads: int = 2
    rank: int = 0
    alpha: float = 32.0
    offload: bool = False

    def __post_init__(self) -> None:
        require(self.rank >= 0 and self.alpha > 0, "optimiser.rank must be at least 0, which is no adapters, and optimiser.alpha above 0")
        require(all(0 <= beta < 1 for beta in self.betas), f"optimiser.betas are {self.betas}; both must be from 0 to below 1")
        require(self.epsilon > 0 and self.clip > 0, "optimiser.epsilon and optimiser.clip must be above 0")
        finer = self.precision != "float32" and self.imitation == "float32"
        told = f"optimiser.imitation is float32 and optimiser.precision {self.precision}, as weights may be kept"
        require(not finer, f"{told}: set optimiser.imitation to bfloat16")
        require(0 <= self.weight_decay < 1, f"optimiser.weight_decay is {self.weight_decay}; it must be from 0, which is none, to below 1")
        require(self.micro_batch_tokens >= 1 and self.threads >= 1, "optimiser.micro_batch_tokens and optimiser.threads must be at least 1")
