"""What a run is for those who start one: train, evaluate, measure, plan. Heavy parts are loaded when they are needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from patchgrad.contracts import Tracker
from patchgrad.errors import Refuse, stop
from patchgrad.recipes.evaluation import Evaluation, of_run
from patchgrad.recipes.laptop import laptop
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.components.code import keep_code
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.runs.planning.plan import MemoryPlan
from patchgrad.store import Run
from patchgrad.values import Report


def train(recipe: Recipe, run: Run, tracker: Tracker, registry: Registry = BY_NAME, cluster: str = "") -> None:
    """Do all phases of a recipe in a run folder, or what is left of them where the run was interrupted.

    `registry` has the parts that were given as objects; with a `cluster` attempts are made on its hosts. `ConfigError` where the user's
    code has changed since the run began; `accept_code` is what to do about it where that is meant.
    """
    from patchgrad.runs.train import train as take  # torch and the sandboxes are heavy; printing a recipe needs neither

    take(recipe, run, tracker, registry, cluster)


def accept_code(recipe: Recipe, run: Run, registry: Registry = BY_NAME) -> None:
    """The run goes on with the code of the user's as it is now."""
    keep_code(recipe, run, registry, accept_changed=True)


def evaluate(run: Run, recipe: Recipe, checkpoint: str | None, tracker: Tracker, registry: Registry = BY_NAME) -> Report:
    """Measure one checkpoint of a run, the last one unless named, on the recipe's held-out tasks; the run is only read."""
    return measure(of_run(recipe, run.checkpoints.find(checkpoint)), tracker, recipe=recipe, registry=registry)


def measure(
    evaluation: Evaluation,
    tracker: Tracker,
    *,
    recipe: Recipe | None = None,
    out: Run | None = None,
    registry: Registry = BY_NAME,
    refuse: Refuse = stop,
    cluster: str = "",
) -> Report:
    """Measure any policy on any set of tasks, on generated ones, or on those that a `recipe` holds out; `out` is a run's folder that keeps
    what happens.

    What is wrong with one of the tasks goes to `refuse`. With a `cluster` attempts are made on its hosts.
    """
    from patchgrad.runs.measure import measure as any_policy  # the sandboxes are heavy, and torch where the policy needs it

    if recipe is None and evaluation.tasks.generated:
        recipe = _generating(evaluation)
    if recipe is None:
        return any_policy(evaluation, tracker, out, None, registry, refuse, cluster)
    from patchgrad.runs.tasks import held_out_tasks

    with TemporaryDirectory() as archives:
        return any_policy(evaluation, tracker, out, held_out_tasks(recipe, Path(archives), registry), registry, refuse, cluster)


def _generating(evaluation: Evaluation) -> Recipe:
    """The recipe whose held-out tasks are the generated ones of an evaluation."""
    preset = laptop()
    tasks = replace(preset.tasks, held_out=evaluation.tasks.count or preset.tasks.held_out)
    return replace(preset, seed=evaluation.seed, tasks=tasks)


def plan(recipe: Recipe, room: int = 0) -> MemoryPlan:
    """What a recipe takes of a machine with so many bytes of memory free, or of this one; nothing is loaded."""
    from patchgrad.runs.planning.estimate import plan as ahead  # torch is heavy

    return ahead(recipe, room)
