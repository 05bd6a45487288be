"""Runs a recipe: builds its tasks and sandboxes, takes its course, writes the report."""

from __future__ import annotations

import asyncio
from pathlib import Path

from patchgrad.contracts import Progress, Sandboxes
from patchgrad.recipes.course import Course
from patchgrad.recipes.recipe import Recipe
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.store import Run
from patchgrad.tasks.sets import load_set
from patchgrad.tasks.workshop import workshop_tasks
from patchgrad.values import Task


def train(recipe: Recipe, run: Run, progress: Progress) -> None:
    """Take the whole course, or what is left of it when the run was interrupted."""
    train_tasks, held_out = tasks(recipe, run.folder / "archives")
    asyncio.run(_train(recipe, train_tasks, held_out, run, progress))


def tasks(recipe: Recipe, folder: Path) -> tuple[list[Task], list[Task]]:
    """Training and held-out tasks of a recipe; workshop archives go to `folder`."""
    source = recipe.tasks
    if source.source == "workshop":
        return (
            workshop_tasks(source.train, recipe.seed, False, folder, source.functions),
            workshop_tasks(source.held_out, recipe.seed, True, folder, source.functions),
        )
    members = load_set(Path(source.folder))
    train_tasks = [task for task in members if task.tags.get("split") != "held_out"]
    held_out = [task for task in members if task.tags.get("split") == "held_out"]
    return train_tasks[: source.train], held_out[: source.held_out]


def sandboxes(recipe: Recipe) -> Sandboxes:
    """One cell for each live episode, and half as many for grading."""
    return BwrapSandboxes(cells=recipe.sandbox.live + recipe.sandbox.live // 2)


async def _train(recipe: Recipe, train_tasks: list[Task], held_out: list[Task], run: Run, progress: Progress) -> None:
    boxes = sandboxes(recipe)
    try:
        await Course(recipe, train_tasks, held_out, run, progress, boxes).travel()
    finally:
        await boxes.close()
