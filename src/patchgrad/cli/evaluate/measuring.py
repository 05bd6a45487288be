"""Of `patchgrad evaluate`: a run's checkpoint, or any policy on any set."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchgrad.cli import options as shared
from patchgrad.cli.evaluate.telling import tell
from patchgrad.config import dumps
from patchgrad.errors import ConfigError, PatchgradError, Refused
from patchgrad.runs.instructions import begin
from patchgrad.store import Run, plain

if TYPE_CHECKING:
    from patchgrad.recipes import Evaluation, Recipe


def run(arguments: argparse.Namespace) -> int:
    """Measure and tell; a run that is measured is only read."""
    from patchgrad.runs import api
    from patchgrad.runs.printing import of_evaluation
    from patchgrad.runs.trackers.terminal import choose

    evaluation, recipe = _asked(arguments)
    if arguments.print:
        text = of_evaluation(evaluation, arguments.print == shared.FULL)
        print(json.dumps({"evaluation": plain(evaluation)}) if arguments.json else text, end="\n" if arguments.json else "")
        return 0
    if recipe is not None:
        begin(recipe.machine)
    refused = Refused()
    with _kept(arguments.out, evaluation, arguments.resume) as out, shared.installed(), choose(quiet=arguments.json) as tracker:
        report = api.measure(evaluation, tracker, recipe=recipe, out=out, refuse=refused, cluster=arguments.cluster)
    code = tell(report, arguments.json, out.folder if out is not None else None)
    return shared.told(refused.sentences) or code


def _asked(arguments: argparse.Namespace) -> tuple[Evaluation, Recipe | None]:
    """What is to be measured, and the recipe whose held-out tasks it is measured on, unless tasks are named."""
    if not arguments.run:
        return (_of_any if arguments.policy else _of_kept)(arguments), None
    return (_of_file(arguments), None) if arguments.run.endswith(".toml") else _of_run(arguments)


def _of_run(arguments: argparse.Namespace) -> tuple[Evaluation, Recipe | None]:
    """A checkpoint under its run's scaffold and limits."""
    from patchgrad.recipes.evaluation import TaskChoice, by_protocol, of_run
    from patchgrad.runs.components.code import places_of
    from patchgrad.runs.reading import recipe_of

    store, protocol = Run.open(arguments.run), arguments.protocol or ""
    places_of(store.about.read().get("code", {}))
    recipe = recipe_of(store)
    choice = by_protocol(recipe.evaluation, protocol, recipe.policy.context)
    recipe = shared.changed(replace(recipe, evaluation=choice), arguments.changes)
    evaluation = of_run(recipe, store.checkpoints.find(arguments.checkpoint), protocol)
    if not arguments.tasks:
        return evaluation, recipe
    return replace(evaluation, tasks=TaskChoice(arguments.tasks, recipe.tasks.level)), None


def of_checkpoint(folder: str, checkpoint: str | None) -> Evaluation:
    """The evaluation of a run's checkpoint, under its recipe's own settings."""
    from patchgrad.recipes.evaluation import of_run
    from patchgrad.runs.reading import recipe_of

    store = Run.open(folder)
    return of_run(recipe_of(store), store.checkpoints.find(checkpoint), "")


def _of_file(arguments: argparse.Namespace) -> Evaluation:
    """An evaluation as `--print` wrote it, or as it stands in a folder that kept one."""
    from patchgrad.runs.reading import read_evaluation

    return shared.changed(read_evaluation(shared.text_of(Path(arguments.run))), arguments.changes)


def _of_kept(arguments: argparse.Namespace) -> Evaluation:
    """The one that the folder holds, to go on with; of a run's checkpoint the folder does not say all, as which tasks the run holds out."""
    from patchgrad.runs.reading import evaluation_of

    kept = evaluation_of(Run.open(arguments.out))
    above = Path(kept.policy).parent.parent
    if not kept.tasks.folder or (above / "run.json").is_file():
        raise ConfigError(
            f"{arguments.out} measures a checkpoint of {above}: go on with it by the line that began it, with --resume added."
        )
    return shared.changed(kept, arguments.changes)


def _of_any(arguments: argparse.Namespace) -> Evaluation:
    """Any policy on a set, or on generated tasks; a model here with fewer positions than the default context has all of its own."""
    from patchgrad import recipes
    from patchgrad.recipes.evaluation import TaskChoice, by_protocol

    if not arguments.tasks:
        raise ConfigError(
            "Name the tasks to measure on, as in --tasks sets/mine or --tasks generated; patchgrad tasks makes sets and imports others'."
        )
    evaluation = recipes.Evaluation(policy=arguments.policy, model=arguments.model or "", tasks=TaskChoice(arguments.tasks))
    protocol = arguments.protocol or ""
    choice = by_protocol(evaluation.evaluation, protocol, 1 << 30)
    asked = shared.changed(replace(evaluation, evaluation=choice, protocol=protocol), arguments.changes)
    named = "evaluation.limits.context" in arguments.changes or not Path(asked.policy).is_dir()
    return asked if named else within_positions(asked)


def within_positions(evaluation: Evaluation) -> Evaluation:
    """With no more of a context than the model of a folder has positions."""
    from patchgrad.networks import folder

    choice = evaluation.evaluation
    reach = folder.shape(evaluation.policy).reaching(0, evaluation.yarn).reach
    return replace(evaluation, evaluation=replace(choice, limits=replace(choice.limits, context=min(choice.limits.context, reach))))


@contextmanager
def _kept(folder: str | None, evaluation: Evaluation, resume: bool) -> Iterator[Run | None]:
    """The folder that keeps an evaluation, made before it begins and gone again if nothing came of it; or one that it goes on with."""
    if folder is None:
        if resume:
            raise ConfigError("--resume goes on with an evaluation that was kept: name its folder, as in --out evaluations/mine.")
        yield None
        return
    if resume:
        with _begun(Path(folder), evaluation) as out:
            yield out
        return
    with Run.create(Path(folder), dumps(evaluation), "--out") as out:
        try:
            yield out
        except (PatchgradError, OSError):
            out.abandon()
            raise


def _begun(folder: Path, evaluation: Evaluation) -> Run:
    """An evaluation that was interrupted; half of one and half of another could be compared with nothing."""
    from patchgrad.runs.reading import evaluation_of

    if evaluation_of(Run.open(folder)) != evaluation:
        raise ConfigError(f"{folder} holds another evaluation than the one that is asked for; keep this one in another folder.")
    return Run.resume(folder)
