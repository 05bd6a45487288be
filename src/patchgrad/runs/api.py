"""What a run is for those who start one: train, evaluate, measure, plan. Heavy parts are loaded when they are needed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from patchgrad.contracts import Tracker
from patchgrad.recipes.evaluation import Evaluation, of_run
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.planning.plan import MemoryPlan
from patchgrad.store import Run
from patchgrad.values import Report


def train(recipe: Recipe, run: Run, tracker: Tracker) -> None:
    """Do all phases of a recipe in a run folder, or what is left of them where the run was interrupted."""
    from patchgrad.runs.train import train as take  # torch and the sandboxes are heavy; printing a recipe needs neither

    take(recipe, run, tracker)


def evaluate(run: Run, recipe: Recipe, checkpoint: str | None, tracker: Tracker) -> Report:
    """Measure one checkpoint of a run, the last one unless named, on the recipe's held-out tasks; the run is only read."""
    return measure(of_run(recipe, run.checkpoints.find(checkpoint)), tracker, recipe=recipe)


def measure(evaluation: Evaluation, tracker: Tracker, *, recipe: Recipe | None = None, out: Run | None = None) -> Report:
    """Measure any policy on any set of tasks, or on those that a `recipe` holds out; `out` is a run's folder that keeps what happens."""
    from patchgrad.runs.measure import measure as any_policy  # the sandboxes are heavy, and torch where the policy needs it

    if recipe is None:
        return any_policy(evaluation, tracker, out)
    from patchgrad.runs.tasks import held_out_tasks

    with TemporaryDirectory() as archives:
        return any_policy(evaluation, tracker, out, held_out_tasks(recipe, Path(archives)))


def plan(recipe: Recipe, room: int = 0) -> MemoryPlan:
    """What a recipe takes of a machine with so many bytes of memory free, or of this one; nothing is loaded."""
    from patchgrad.runs.planning.estimate import plan as ahead  # torch is heavy

    return ahead(recipe, room)
