"""A recipe is run in a folder: its tasks and sandboxes are made, and all phases that are not done yet are done."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from patchgrad.contracts import Tracker
from patchgrad.grading import Grader
from patchgrad.networks import folder as models
from patchgrad.networks.rounding import decided
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.algorithms import algorithm
from patchgrad.runs.build import curriculum as curricula
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.components.code import files_of, keep_code
from patchgrad.runs.components.parts import named_parts
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.runs.event_loop import run_to_end
from patchgrad.runs.instructions import begun
from patchgrad.runs.pipeline import complete
from patchgrad.runs.planning.advice import advised, settle
from patchgrad.runs.planning.device import device, supported
from patchgrad.runs.sandboxed import keep_sandbox
from patchgrad.runs.session import RunContext, RunTasks, told
from patchgrad.runs.tasks import run_tasks, solutions
from patchgrad.runs.trackers.status import Status
from patchgrad.runs.untaught import notes
from patchgrad.store import Run
from patchgrad.values import Note, PhaseBegan


def train(recipe: Recipe, run: Run, tracker: Tracker, registry: Registry = BY_NAME, cluster: str = "") -> None:
    """All phases of a recipe, or what is left of them where the run was interrupted; attempts are made on the hosts of a `cluster`.

    Parts of the user's are looked at before anything is done: `ConfigError` or `ComponentError` for one that cannot work, and for one whose
    code is another one than the run has kept.
    """
    with Status(run.folder, tracker) as status:  # from the beginning on, so that a process before this one is not taken for it
        supported(recipe)
        begun(recipe.machine)
        device(recipe.machine.gpus)
        if recipe.policy.model:  # refused now and not after the tasks were made
            models.shape(recipe.policy.model).reaching(recipe.policy.context, recipe.policy.yarn)
        for note in () if run.state() else notes(recipe):
            status.event(Note(note, stays=True))
        keep_code(recipe, run, registry)
        _try_parts(recipe, registry)
        with _rounding(run):
            settle(recipe)
            with advised(recipe):
                tasks = run_tasks(recipe, run.folder / "archives", registry)
                curricula.tried(recipe, tasks.train, registry)
                with _frozen_heap():
                    run_to_end(lambda: status.over(_train(recipe, tasks, run, status, registry, cluster)))


def _try_parts(recipe: Recipe, registry: Registry) -> None:
    """Makes the parts that need nothing of a run, and leaves them."""
    harnesses.reward(recipe.reward, registry)
    harnesses.judges(recipe.judges, registry)
    harnesses.agent(recipe.agent, registry)
    for stage in recipe.stages:
        algorithm(stage, registry=registry)


@contextmanager
def _rounding(run: Run) -> Iterator[None]:
    """Products are rounded as they were when the run began."""
    before = run.about.read().get("rounding")
    with decided(before) as quick:
        if before is None:
            run.about.write_rounding(quick)
        yield


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """What is there now lives as long as the run: the collector does not look it through again and again, while all threads wait."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _train(recipe: Recipe, tasks: RunTasks, run: Run, tracker: Tracker, registry: Registry, cluster: str) -> None:
    boxes = harnesses.sandboxes(recipe.sandbox, registry)
    keep_sandbox(run, boxes, tracker)
    seen, judges = partial(told, tracker), harnesses.judges(recipe.judges, registry)
    grader = Grader(boxes, solutions(recipe))
    harness = harnesses.harness(recipe.agent, recipe.sandbox, grader, run.journal, seen, registry, judges)
    if cluster:
        tracker.event(PhaseBegan(f"look for the hosts of {cluster}", 1))
        harness = replace(harness, executor=harnesses.spread(cluster, recipe.sandbox.concurrency, files_of(named_parts(recipe), registry)))
    try:
        await complete(RunContext(recipe, tasks, run, tracker, harness, registry, cluster))
    except asyncio.CancelledError:
        tracker.event(PhaseBegan("stopping, after the update that is being computed", 1))
        raise
    finally:
        await harness.executor.close()
        await boxes.close()
