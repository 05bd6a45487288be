"""What a recipe says of its network and its optimiser, before there is either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from patchgrad.networks import folder
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.recipe import Recipe
from patchgrad.trainers.optimisers import AdamW, Muon
from patchgrad.trainers.optimisers import Optimiser as Steps


def shape_of(recipe: Recipe) -> DecoderConfig:
    """The network's shape; of a model nothing but its `config.json` is read."""
    policy = recipe.policy
    return folder.shape(policy.model).reaching(policy.context, policy.yarn) if policy.model else fresh_shape(recipe)


def fresh_shape(recipe: Recipe, eos: tuple[int, ...] = ()) -> DecoderConfig:
    """The shape of a network that the recipe makes."""
    shape = recipe.policy.shape
    return DecoderConfig(
        vocabulary=shape.vocabulary,
        hidden=shape.hidden,
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_size=shape.head_dim,
        intermediate=shape.intermediate,
        theta=shape.theta,
        context=recipe.policy.context,
        eos=eos,
    )


def an_optimiser(choice: Optimiser) -> Callable[[Mapping[str, Tensor]], Steps]:
    """What makes the recipe's optimiser over parameters by name."""
    adamw = partial(AdamW, betas=choice.betas, epsilon=choice.epsilon, decay=choice.weight_decay)
    return adamw if choice.name == "adamw" else partial(Muon, adamw=adamw)
