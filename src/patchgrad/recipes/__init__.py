"""A run is a value that can be printed: recipes by name, and `train`, which runs one."""

from __future__ import annotations

from collections.abc import Callable

from patchgrad.contracts import Progress
from patchgrad.recipes.laptop import laptop, smoke
from patchgrad.recipes.recipe import Recipe
from patchgrad.store import Run
from patchgrad.values import Report

RECIPES: dict[str, Callable[[], Recipe]] = {"laptop": laptop, "smoke": smoke}


def train(recipe: Recipe, run: Run, progress: Progress) -> None:
    """Take the whole course of a recipe in a run folder, or what is left of it when the run was interrupted."""
    from patchgrad.recipes.run import train as take  # torch and the sandboxes are heavy; printing a recipe needs neither

    take(recipe, run, progress)


def evaluate(run: Run, recipe: Recipe, checkpoint: str | None, progress: Progress) -> Report:
    """Measure one checkpoint of a run, the last one unless named, on the recipe's held-out tasks; the run is only read."""
    from patchgrad.recipes.run import evaluate as measure  # as above

    return measure(run, recipe, checkpoint, progress)


__all__ = ["RECIPES", "Recipe", "evaluate", "laptop", "smoke", "train"]
