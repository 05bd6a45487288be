"""A model of the user's that begins with settings which are for a network from scratch."""

from __future__ import annotations

from collections.abc import Iterator

from patchgrad.recipes.recipe import Recipe

LARGE = 1e-4  # a rate at which adapters and small networks are trained
ROOM = 4096  # tokens: the full prompt takes some 1,000, and 1,900 with a demonstration
LORA = "16"  # the rank that `smol` trains with


def notes(recipe: Recipe) -> tuple[str, ...]:
    """What to know of a recipe before it is run: a sentence where nothing teaches its model the protocol and settings are for another kind.

    A network from scratch, and a model that a warm-up teaches, have none.
    """
    if recipe.warms_up:
        return ()
    found = list(_unfit(recipe))
    if not found:
        return ()
    settings, words = (", ".join(parts) for parts in zip(*found, strict=True))
    model = recipe.policy.model
    return (
        f"Nothing warms up {model}, and these settings are for a network from scratch: {settings}. Unless the model has learned "
        f"patchgrad's protocol before, train it by the recipe smol (patchgrad train smol --policy.model {model}), or set {words}.",
    )


def _unfit(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Each setting that is for a network from scratch, and the words to set in its place."""
    agent, optimiser, rft = recipe.agent, recipe.optimiser, recipe.rft
    rates = [*([rft.lr] if rft.rounds else []), *(stage.lr for stage in recipe.stages)]
    limits = (*([rft.limits] if rft.rounds else []), *(stage.limits for stage in recipe.stages), recipe.evaluation.limits)
    shortest = min(one.context for one in limits)
    if agent.scaffold.name == "react" and agent.prompts == "brief":
        yield "agent.prompts brief, which say nothing of the protocol", "--agent.prompts full"
    if optimiser.name == "muon":
        yield "optimiser.name muon", "--optimiser.name adamw"
    if not optimiser.rank and rates and max(rates) >= LARGE:
        yield f"a learning rate of {max(rates):g} for all parameters", f"--optimiser.rank {LORA}"
    if agent.scaffold.name == "react" and shortest < ROOM:
        told = f"contexts of {shortest:,} tokens, of which full prompts take some 1,000"
        yield told, f"policy.context and the phases' limits.context to {ROOM:,} or more"
