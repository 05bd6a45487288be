"""Recipes by name: a recipe is a value that can be printed, and nothing else. `patchgrad.runs` makes a run of one."""

from __future__ import annotations

from collections.abc import Callable

from patchgrad.recipes.cluster_tiny import cluster_tiny
from patchgrad.recipes.evaluation import Evaluation
from patchgrad.recipes.laptop import laptop, smoke
from patchgrad.recipes.mini import mini
from patchgrad.recipes.nebius2508 import Scale, nebius2508
from patchgrad.recipes.recipe import Recipe
from patchgrad.recipes.smol import smol, smol_long
from patchgrad.recipes.tiny import tiny

RECIPES: dict[str, Callable[[], Recipe]] = {
    "cluster-tiny": cluster_tiny,
    "laptop": laptop,
    "mini": mini,
    "nebius2508": nebius2508,
    "smoke": smoke,
    "smol": smol,
    "smol-long": smol_long,
    "tiny": tiny,
}
SCALED: dict[str, Callable[[Scale], Recipe]] = {"nebius2508": nebius2508}
"""Those of them that are sized for several machines."""

__all__ = [
    "RECIPES",
    "SCALED",
    "Evaluation",
    "Recipe",
    "Scale",
    "cluster_tiny",
    "laptop",
    "mini",
    "nebius2508",
    "smoke",
    "smol",
    "smol_long",
    "tiny",
]
