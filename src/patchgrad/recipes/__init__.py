"""A run is a value that can be printed: recipes by name, and `train`, which runs one; an evaluation is another, and `measure` does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from patchgrad.contracts import Progress
from patchgrad.recipes.evaluation import Evaluation, of_run
from patchgrad.recipes.laptop import laptop, smoke
from patchgrad.recipes.nebius2508 import Scale, nebius2508, printed
from patchgrad.recipes.plans import Plan
from patchgrad.recipes.recipe import Recipe
from patchgrad.store import Run
from patchgrad.values import Report

RECIPES: dict[str, Callable[[], Recipe]] = {"laptop": laptop, "nebius2508": nebius2508, "smoke": smoke}
SCALED: dict[str, Callable[[Scale], Recipe]] = {"nebius2508": nebius2508}
"""Those of them that are sized for several machines."""


def train(recipe: Recipe, run: Run, progress: Progress) -> None:
    """Take the whole course of a recipe in a run folder, or what is left of it when the run was interrupted."""
    from patchgrad.recipes.run import train as take  # torch and the sandboxes are heavy; printing a recipe needs neither

    take(recipe, run, progress)


def evaluate(run: Run, recipe: Recipe, checkpoint: str | None, progress: Progress) -> Report:
    """Measure one checkpoint of a run, the last one unless named, on the recipe's held-out tasks; the run is only read."""
    return measure(of_run(recipe, run.find(checkpoint)), progress, recipe=recipe)


def measure(evaluation: Evaluation, progress: Progress, *, recipe: Recipe | None = None, out: Run | None = None) -> Report:
    """Measure any policy on any set of tasks, or on those that a `recipe` holds out; `out` is a run's folder that keeps what happens."""
    from patchgrad.recipes.measuring import measure as any_policy  # the sandboxes are heavy, and torch where the policy needs it

    if recipe is None:
        return any_policy(evaluation, progress, out)
    from patchgrad.recipes.run import held_out_tasks

    with TemporaryDirectory() as archives:
        return any_policy(evaluation, progress, out, held_out_tasks(recipe, Path(archives)))


def plan(recipe: Recipe, room: int = 0) -> Plan:
    """What a recipe takes of a machine with so many bytes of memory free, or of this one; nothing is loaded."""
    from patchgrad.recipes.planning import plan as ahead  # torch is heavy

    return ahead(recipe, room)


__all__ = ["RECIPES", "SCALED", "Evaluation", "Recipe", "evaluate", "laptop", "measure", "nebius2508", "plan", "printed", "smoke", "train"]
