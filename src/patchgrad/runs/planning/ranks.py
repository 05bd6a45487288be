"""Memory of a rank of the trainer, on a GPU of its own or on the cores of a machine, by what it is for.

A rank has its rows of weights, states and gradients. The rest is what a pass on one GPU holds of its share of the longest sequence, which
is rehearsed with nothing but adapters to train, since whole gradients are counted apart (`rehearsal.py`). Beside it is what is gathered:
the layer that is computed and the next one, the gradient of one before it is given to its ranks, and, from the forward pass to the
backward one, embedding and head with their gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.rounding import settled
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.planning.packs import Phase, footprint, phases, referred
from patchgrad.runs.planning.plan import Part

GATHERED = 3
"""Layers that are whole at once: the one that is computed, the next one, and the gradient of one."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a rank holds, in the phase that takes the most; `sequence` are the tokens of its longest sequence, `tokens` those of a rank."""

    phase: str
    sequence: int
    tokens: int
    parts: tuple[Part, ...]

    @property
    def peak(self) -> int:
        return sum(part.bytes for part in self.parts)


def of_a_rank(recipe: Recipe, shape: DecoderConfig) -> Held:
    """One of several ranks."""
    together = int(recipe.trainer.options.get("together", 1))
    return max((_rank(recipe, shape, together, phase) for phase in phases(recipe)), key=lambda held: held.peak)


def _rank(recipe: Recipe, shape: DecoderConfig, together: int, phase: Phase) -> Held:
    choice, ranks = recipe.optimiser, recipe.ranks
    sizes = _sizes(shape, ranks, together)
    size = next((n for n in sizes if phase.tokens <= n * choice.micro_batch_tokens), max(sizes))
    own, exact = math.ceil(phase.tokens / size), bool(recipe.trainer.options.get("exact", not recipe.machine.gpus))
    gpu = recipe.machine.gpus > 0
    reduced = settled(choice.precision, gpu) == "bfloat16"
    one, thin = (
        footprint(shape, made, own, math.ceil(phase.trained / size), phase.frozen, gpu)
        for made in (replace(choice, offload=False), replace(choice, offload=False, rank=choice.rank or 1))
    )
    kept = 2 if choice.rank and reduced else 4
    ends = shape.vocabulary * shape.hidden * (2 - shape.tied)
    parts: tuple[Part, ...] = (
        Part(f"weights, a {_nth(ranks)}", one.weights // ranks),
        Part(f"states of {choice.name}, a {_nth(ranks)}", one.states // ranks),
        Part("gradients, whole" if exact else f"gradients, a {_nth(ranks)}", one.gradients if exact else one.gradients // ranks),
        Part("layers as they are gathered", (GATHERED * kept + (2 if reduced and kept == 4 else 0)) * shape.dense),
        Part("embedding and head, and their gradients", 2 * kept * ends),
        Part(f"activations of {own:,} tokens", thin.passing),
    )
    if referred(recipe):
        parts += (Part(f"the reference's weights, a {_nth(ranks)}", one.weights // ranks),)
    return Held(phase.name, phase.tokens, own, parts)


def _sizes(shape: DecoderConfig, ranks: int, together: int) -> list[int]:
    """How many ranks may share a sequence, as the trainer has it."""
    return [size for size in range(1, min(ranks, together) + 1) if ranks % size == 0 and shape.heads % size == 0]


def _nth(count: int) -> str:
    return {1: "whole", 2: "half"}.get(count, f"{count}th")
