"""The tasks of a recipe: to train on, to measure with, and to show how to work on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

from patchgrad.contracts import TaskSource
from patchgrad.errors import ConfigError
from patchgrad.functions import calling, requires, wrong
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.runs.demonstrations.known_bugs import teachable
from patchgrad.runs.session import RunTasks
from patchgrad.tasks.evaluation_sets import VERIFIED_50, fifty
from patchgrad.tasks.sets import load_repairs, load_set
from patchgrad.tasks.splits import mixed, trainable
from patchgrad.tasks.synthetic import synthetic_tasks
from patchgrad.values import Task, digest

KIND = "task source"
FEW = 4


def run_tasks(recipe: Recipe, folder: Path, registry: Registry = BY_NAME) -> RunTasks:
    """The tasks of a recipe; archives of synthetic tasks go to `folder`.

    Of few tasks to train on at most one in `FEW` is kept for validation.
    """
    made = _made(recipe, folder, registry)
    count = min(recipe.validation.tasks, len(made.train) // FEW)
    kept = set(sorted((task.id for task in made.train), key=lambda task: digest("validation", str(recipe.seed), task))[:count])
    validation = tuple(task for task in made.train if task.id in kept)
    shown = tuple(tuple(task for task in kind if task.id not in kept) for kind in made.shown)
    return replace(made, train=tuple(task for task in made.train if task.id not in kept), shown=shown, validation=validation)


def _made(recipe: Recipe, folder: Path, registry: Registry) -> RunTasks:
    source = recipe.tasks
    if source.source.name == "synthetic":
        held = held_out_tasks(recipe, folder, registry)
        own = tuple(synthetic_tasks(source.train, recipe.seed, False, folder, source.functions, source.families, apart_from=held))
        return RunTasks(own, tuple(held), (own,))
    train_tasks, held_out = _of_a_set(recipe) if source.source.name == "set" else _of_the_users(recipe, registry)
    apart = _generated(recipe, folder)
    beside, shown = round(source.train * source.mix.synthetic), recipe.warmup.tasks if recipe.warms_up else 0
    count, kinds = max(beside, shown), (source.functions, source.families)
    made = synthetic_tasks(count, recipe.seed, False, folder, *kinds, apart_from=apart) if count else []
    planted = {task.id: task for task in train_tasks if shown and teachable(task)}
    return RunTasks((*train_tasks, *made[:beside]), (*held_out, *apart), (tuple(made[:shown]), tuple(planted.values())))


def _generated(recipe: Recipe, folder: Path) -> list[Task]:
    """The generated tasks that are held out beside those of a set."""
    source = recipe.tasks
    if not source.held_out_generated:
        return []
    return synthetic_tasks(source.held_out_generated, recipe.seed, True, folder, source.functions, source.families)


def _of_a_set(recipe: Recipe) -> tuple[list[Task], list[Task]]:
    source = recipe.tasks
    members = [task for task in load_set(Path(source.folder), source.level) if _wanted(task, source.planted)]
    held_out = [task for task in members if task.tags.get("split") in ("held_out", "evaluation")]
    held_out = (fifty(held_out) if source.held_out == len(VERIFIED_50) else []) or held_out
    count = source.train - round(source.train * source.mix.synthetic)
    shares = {kind: share for kind, share in asdict(source.mix).items() if kind != "synthetic"}
    train_tasks = mixed(trainable(members), shares, count, recipe.seed)
    for side, found in (("to train on", train_tasks), ("held out", held_out)):
        if not found:
            raise ConfigError(f"{source.folder} has no tasks {side}: patchgrad tasks split {source.folder} --held-out 0.2")
    return train_tasks, sorted(held_out, key=lambda task: digest(str(recipe.seed), task.id))[: source.held_out]


def solutions(recipe: Recipe) -> dict[str, str]:
    """The patches that solve tasks, by the tasks' ids, as far as they are known beside the tasks: in a set."""
    return load_repairs(Path(recipe.tasks.folder)) if recipe.tasks.source.name == "set" else {}


def _wanted(task: Task, planted: tuple[str, ...]) -> bool:
    """Is it made of these families alone, or of none?"""
    family = task.tags.get("family", "")
    return not planted or not family or set(family.split("+")) <= set(planted)


def held_out_tasks(recipe: Recipe, folder: Path, registry: Registry = BY_NAME) -> list[Task]:
    """The tasks that a run is measured on; archives of synthetic tasks go to `folder`."""
    source = recipe.tasks
    if source.source.name == "synthetic":
        return synthetic_tasks(source.held_out, recipe.seed, True, folder, source.functions, source.families)
    own = (_of_a_set(recipe) if source.source.name == "set" else _of_the_users(recipe, registry))[1]
    return [*own, *_generated(recipe, folder)]


def _of_the_users(recipe: Recipe, registry: Registry) -> tuple[list[Task], list[Task]]:
    """The tasks of a source of the user's: a function of split, count and seed, or tasks of which those tagged `held_out` are."""
    choice = recipe.tasks
    made = registry.find("task_sources", choice.source, "tasks.source")
    source: TaskSource = (
        Listed(made) if isinstance(made, list | tuple) else registry.function("task_sources", choice.source, "tasks.source")
    )
    requires(source, KIND, (3,), "split, count, seed")
    count = choice.train - round(choice.train * choice.mix.synthetic)
    train_tasks, held_out = (_asked(source, "train", count, recipe.seed), _asked(source, "held_out", choice.held_out, recipe.seed))
    if both := {task.id for task in train_tasks} & {task.id for task in held_out}:
        raise ConfigError(f"tasks.source {choice.source.name} gives {min(both)} to train on and as held out; a task is one of both.")
    return train_tasks, held_out


def _asked(source: TaskSource, split: Literal["train", "held_out"], count: int, seed: int) -> list[Task]:
    with calling(KIND, source, f"the split {split}"):
        found = source(split, count, seed)
    if not isinstance(found, Sequence) or not found or not all(isinstance(task, Task) for task in found):
        raise wrong(KIND, source, found, "a list of at least one task", f"the split {split}")
    return list(found)[:count]


class Listed:
    """Tasks as a source: held out are those whose tag `split` says so, and the others are trained on."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)

    def __call__(self, split: Literal["train", "held_out"], count: int, seed: int) -> Sequence[Task]:
        return [task for task in self._tasks if (task.tags.get("split") in ("held_out", "evaluation")) == (split == "held_out")]
