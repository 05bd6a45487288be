"""Memory of a GPU that has a part of a replica."""

from __future__ import annotations

from patchgrad.networks.decoder import DecoderConfig
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.planning.plan import Part
from patchgrad.runs.planning.ranks import Held

SHARE = 0.9
"""Of a GPU's memory, so much does a server of vLLM's take."""


def of_a_replica(recipe: Recipe, shape: DecoderConfig, split: int, memory: float) -> Held:
    """A GPU of a server of vLLM's, where a model lies on so many; the caches take what is left of its share."""
    weights = 2 * shape.parameters // split
    left = max(0, int(SHARE * memory) - weights)
    longest = max(recipe.rft.limits.context, *(stage.limits.context for stage in recipe.stages))
    return Held("sampling", longest, longest, (Part("weights in bfloat16", weights), Part("caches", left)))
