"""The packs that a recipe trains, and what a step of one process holds of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from patchgrad.networks.decoder import DecoderConfig
from patchgrad.networks.lora import Lora
from patchgrad.networks.rounding import settled
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.planning.rehearsal import Footprint, Step, rehearse
from patchgrad.runs.planning.shapes import an_optimiser

DRAWN = 0.25  # of the tokens of attempts, so many at most are taken to be the policy's own


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase that trains: the most tokens of one pack, how many of them are trained, and which parameters are not."""

    name: str
    tokens: int
    trained: int
    frozen: tuple[str, ...] = ()


def phases(recipe: Recipe) -> list[Phase]:
    """Those that train. A pack is as long as it may be, or as the longest attempt."""
    choice, rft = recipe.optimiser, recipe.rft
    contexts = {"fine-tuning": rft.limits.context} if rft.rounds else {}
    contexts |= {f"stage {number}": stage.limits.context for number, stage in enumerate(recipe.stages, 1)}
    frozen = choice.frozen if recipe.policy.model else ()  # a network from scratch learns all of its weights
    longest = choice.micro_batch_tokens
    warm_up = [Phase("the warm-up", longest, longest, frozen)] if recipe.warms_up else []
    lengths = {name: max(choice.micro_batch_tokens, context) for name, context in contexts.items()}
    return [*warm_up, *(Phase(name, length, int(length * DRAWN), choice.frozen) for name, length in lengths.items())]


@cache
def footprint(shape: DecoderConfig, choice: Optimiser, tokens: int, trained: int, frozen: tuple[str, ...], fused: bool) -> Footprint:
    """What a step of one process holds where a pack has so many tokens; on a GPU attention is `fused`."""
    step = Step(
        tokens=tokens,
        trained=trained,
        precision=settled(choice.precision, fused),
        gradient_checkpointing=choice.gradient_checkpointing,
        lora=Lora(choice.rank, choice.alpha) if choice.rank else None,
        frozen=frozen,
        offload=choice.offload,
        fused=fused,
    )
    return rehearse(shape, an_optimiser(choice), step)


def referred(recipe: Recipe) -> bool:
    """Is there a network beside the trained one, to which a stage's kl_penalty pulls?"""
    return any(stage.loss.kl_penalty.weight and stage.loss.kl_penalty.to == "reference" for stage in recipe.stages)
