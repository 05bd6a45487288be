"""Which tasks come next: the recipe's curriculum over the tasks of a run."""

from __future__ import annotations

from collections.abc import Sequence

from patchgrad.contracts import Curriculum, StagedCurriculum
from patchgrad.learning.curricula import Pool, Staged
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.components.construct import conforming, construct
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.values import Task


def curriculum(recipe: Recipe, tasks: Sequence[Task], registry: Registry = BY_NAME) -> StagedCurriculum:
    """A fresh one. One of the user's is made with `tasks` and `seed`, as far as it asks for them, and chooses all tasks itself."""
    choice, facts = recipe.curriculum, {"tasks": tuple(tasks), "seed": recipe.seed}
    if choice.name == "pool":
        pool: Pool = construct("curriculum", Pool, choice.options, facts)
        return pool
    return Staged(conforming("curriculum", registry.make("curricula", choice, "curriculum", facts), Curriculum), tasks)


def tried(recipe: Recipe, tasks: Sequence[Task], registry: Registry) -> None:
    """Asks a fresh curriculum of the user's for a task and its state, so that one that cannot work is refused before a run begins.

    One that was handed over as an object is the run's own, and is left alone.
    """
    if recipe.curriculum.name == "pool" or not callable(registry.find("curricula", recipe.curriculum, "curriculum")):
        return
    fresh = curriculum(recipe, tasks, registry)
    fresh.draw(1)
    fresh.restore(fresh.state())
