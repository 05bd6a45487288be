"""A recipe is run in a folder: its tasks and sandboxes are made, and all phases that are not done yet are done."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from patchgrad.contracts import ENFORCED, Tracker
from patchgrad.networks import folder as models
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.pipeline import complete
from patchgrad.runs.planning.advice import advised, settle
from patchgrad.runs.planning.device import device, supported
from patchgrad.runs.session import RunContext, RunTasks, told
from patchgrad.runs.tasks import run_tasks
from patchgrad.store import Run


def train(recipe: Recipe, run: Run, tracker: Tracker) -> None:
    """All phases of a recipe, or what is left of them where the run was interrupted."""
    supported(recipe)
    device(recipe.machine.gpus)
    if recipe.policy.model:  # refused now and not after the tasks were made
        models.shape(recipe.policy.model).reaching(recipe.policy.context, recipe.policy.yarn)
    settle(recipe)
    with advised(recipe):
        tasks = run_tasks(recipe, run.folder / "archives")
        with _frozen_heap():
            asyncio.run(_train(recipe, tasks, run, tracker))


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """What is there now lives as long as the run: the collector does not look it through again and again, while all threads wait."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _train(recipe: Recipe, tasks: RunTasks, run: Run, tracker: Tracker) -> None:
    boxes = harnesses.sandboxes(recipe.sandbox)
    probed = boxes.probe()
    run.results.write_sandbox(probed.name, probed.missing(ENFORCED))
    harness = harnesses.harness(recipe.agent, recipe.sandbox, boxes, run.journal, partial(told, tracker))
    try:
        await complete(RunContext(recipe, tasks, run, tracker, harness))
    finally:
        await boxes.close()
