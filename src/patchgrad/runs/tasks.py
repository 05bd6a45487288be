"""The tasks of a recipe: to train on, to measure with, and to show how to work on."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from patchgrad.errors import ConfigError
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.demonstrations.known_bugs import teachable
from patchgrad.runs.session import RunTasks
from patchgrad.tasks.evaluation_sets import VERIFIED_50, fifty
from patchgrad.tasks.sets import load_set
from patchgrad.tasks.splits import mixed, trainable
from patchgrad.tasks.synthetic import synthetic_tasks
from patchgrad.values import Task, digest


def run_tasks(recipe: Recipe, folder: Path) -> RunTasks:
    """The tasks of a recipe; archives of synthetic tasks go to `folder`."""
    source = recipe.tasks
    if source.source.name == "synthetic":
        held = held_out_tasks(recipe, folder)
        own = tuple(synthetic_tasks(source.train, recipe.seed, False, folder, source.functions, source.families, apart_from=held))
        return RunTasks(own, tuple(held), (own,))
    train_tasks, held_out = _of_a_set(recipe)
    beside, shown = round(source.train * source.mix.synthetic), 0 if recipe.policy.model else recipe.warmup.tasks
    made = synthetic_tasks(max(beside, shown), recipe.seed, False, folder, source.functions, source.families) if beside or shown else []
    planted = {task.id: task for task in train_tasks if shown and teachable(task)}
    return RunTasks((*train_tasks, *made[:beside]), tuple(held_out), (tuple(made[:shown]), tuple(planted.values())))


def _of_a_set(recipe: Recipe) -> tuple[list[Task], list[Task]]:
    source = recipe.tasks
    members = [task for task in load_set(Path(source.folder), source.level) if _wanted(task, source.planted)]
    held_out = [task for task in members if task.tags.get("split") in ("held_out", "evaluation")]
    held_out = (fifty(held_out) if source.held_out == len(VERIFIED_50) else []) or held_out
    count = source.train - round(source.train * source.mix.synthetic)
    train_tasks = mixed(trainable(members), asdict(source.mix), count, recipe.seed)
    for side, found in (("to train on", train_tasks), ("held out", held_out)):
        if not found:
            raise ConfigError(f"{source.folder} has no tasks {side}: patchgrad tasks split {source.folder} --held-out 0.2")
    return train_tasks, sorted(held_out, key=lambda task: digest(str(recipe.seed), task.id))[: source.held_out]


def _wanted(task: Task, planted: tuple[str, ...]) -> bool:
    """Is it made of these families alone, or of none?"""
    family = task.tags.get("family", "")
    return not planted or not family or set(family.split("+")) <= set(planted)


def held_out_tasks(recipe: Recipe, folder: Path) -> list[Task]:
    """The tasks that a run is measured on; archives of synthetic tasks go to `folder`."""
    source = recipe.tasks
    if source.source.name == "synthetic":
        return synthetic_tasks(source.held_out, recipe.seed, True, folder, source.functions, source.families)
    return _of_a_set(recipe)[1]
