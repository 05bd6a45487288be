"""The trainer whose network lies in parts on several processes, as a recipe names it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from patchgrad.errors import ConfigError
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lora import Lora
from patchgrad.networks.rounding import multiplies_bfloat16, settled
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.demonstrations.induction import planted
from patchgrad.runs.planning.shapes import an_optimiser
from patchgrad.trainers.allocator import gives_back
from patchgrad.trainers.sharded.launching import launched
from patchgrad.trainers.sharded.rank import Spec
from patchgrad.trainers.sharded.trainer import ShardedTrainer, held_still


def sharded(
    network: Decoder,
    recipe: Recipe,
    frozen: Sequence[str] = (),
    version: int = 0,
    ranks: int = 0,
    together: int = 1,
    exact: bool | None = None,
) -> ShardedTrainer:
    """Over as many ranks as the recipe has; at most so many `together` share a sequence that is longer than a micro-batch.

    Sums are `exact` on the cores unless told otherwise, and on GPUs if told. The ranks end with the trainer.
    """
    choice, gpus = recipe.optimiser, recipe.machine.gpus
    if choice.offload:
        raise ConfigError("optimiser.offload is for one GPU: several have a part of the optimiser each, so leave it away")
    there = launched(ranks or recipe.ranks, "cuda" if gpus else "cpu", together)
    held = planted(network)
    spec = Spec(
        config=network.config,
        make=an_optimiser(choice),
        clip=choice.clip,
        precision=settled(choice.precision, gpus > 0),
        lora=Lora(choice.rank, choice.alpha) if choice.rank else None,
        frozen=tuple(frozen),
        gradient_checkpointing=choice.gradient_checkpointing,
        held=held_still(held, dict(network.named_parameters())) if held else {},
        exact=not gpus if exact is None else exact,
        gives_back=gives_back(),
        rounds=multiplies_bfloat16(),
    )
    made = ShardedTrainer(network, there, spec, tokens=choice.micro_batch_tokens, version=version, base=recipe.policy.model)
    weakref.finalize(made, there.close)
    return made
