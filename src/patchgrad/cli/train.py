"""train a policy by a recipe: base, rejection fine-tuning, reinforcement learning, evaluation

RECIPE is a name (cluster-tiny, laptop, mini, nebius2508, smoke, smol, smol-long, tiny) or a TOML file, as --print writes it: what differs
from a preset, or, with --print full, every key. Any field of it can be set by its dotted name:

  patchgrad train laptop
  patchgrad train laptop --run runs/second --seed 1 --stages.0.iterations 12
  patchgrad train laptop --print > mine.toml
  patchgrad train nebius2508 --scale cluster --print
  patchgrad train smoke --reward mine:small
  patchgrad train --run runs/second --resume
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from patchgrad.cli import options as shared
from patchgrad.config import dumps
from patchgrad.errors import ConfigError, NothingLearned, PatchgradError
from patchgrad.runs.instructions import begin
from patchgrad.runs.threads import load_torch as _load_torch
from patchgrad.store import Run, finite, plain

if TYPE_CHECKING:
    from patchgrad.recipes import Recipe


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help="a recipe's name, or a TOML file")
    parser.add_argument("--run", metavar="DIR", help="the run's folder (default: runs/NAME of the recipe)")
    words = "the machine that the recipe is sized for: laptop (default), gpu or cluster; what differs is told by --print"
    parser.add_argument("--scale", metavar="SCALE", help=words)
    words = "go on with the run in DIR, by the recipe that stands there; with RECIPE begin it where there is none yet"
    parser.add_argument("--resume", action="store_true", help=words)
    shared.cluster(parser)
    words = "go on although the code of a part of yours, such as a reward, has changed since the run began"
    parser.add_argument("--accept-changed-code", action="store_true", help=words)
    words = "print the recipe as TOML and do nothing else: what differs from its preset, or with `--print full` every key"
    parser.add_argument("--print", metavar="full", nargs="?", const=shared.SHORT, choices=(shared.SHORT, shared.FULL), help=words)
    parser.add_argument("--json", action="store_true", help="no progress; one JSON object at the end")


def run(arguments: argparse.Namespace) -> int:
    """Train, write the page, and say where it is."""
    if arguments.print:
        return _print(arguments)
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ["RANK"] != "0":
        return _attend()
    folder = _folder(arguments)
    if arguments.recipe and not folder.exists():
        arguments.resume = False  # a job that is queued again says the same as at first
    if arguments.resume and arguments.scale is not None:
        raise ConfigError("--scale cannot change in a run that has begun; leave it out, or start another with --run.")
    begin((_recipe(Run.open(folder)) if arguments.resume else _asked(arguments)).machine)
    _load_torch()
    if arguments.resume:
        with _resumed(folder, arguments) as store:
            return _train(store, arguments)
    with _created(folder, arguments) as store:
        try:
            return _train(store, arguments)
        except (PatchgradError, OSError):
            store.abandon()
            raise


def _attend() -> int:
    """As one of torchrun's processes that is not the first: a rank, as long as the first one trains."""
    from patchgrad.trainers.sharded import launching

    launching.attend()
    return 0


def _print(arguments: argparse.Namespace) -> int:
    from patchgrad.runs import printing, untaught

    recipe = _asked(arguments)
    if arguments.json:
        print(json.dumps({"recipe": plain(recipe), "notes": untaught.notes(recipe)}))
    elif arguments.print == shared.FULL:
        print(printing.full(recipe), end="")
    else:
        origin = shared.origin(_named(arguments), arguments.scale)
        print(printing.short(recipe, origin or printing.nearest(recipe)), end="")
    return 0


def _asked(arguments: argparse.Namespace) -> Recipe:
    return shared.changed(shared.recipe(_named(arguments), arguments.scale), arguments.changes)


def _named(arguments: argparse.Namespace) -> str:
    if not arguments.recipe:
        raise ConfigError("Name a recipe, as in: patchgrad train laptop; or go on with a run: patchgrad train --run DIR --resume.")
    return str(arguments.recipe)


def _folder(arguments: argparse.Namespace) -> Path:
    if arguments.run:
        return Path(arguments.run)
    return Path("runs") / _asked(arguments).name


def _created(folder: Path, arguments: argparse.Namespace) -> Run:
    return Run.create(folder, dumps(_asked(arguments)))


def _resumed(folder: Path, arguments: argparse.Namespace) -> Run:
    """A run keeps its recipe: half of one and half of another could be compared with nothing."""
    from patchgrad.runs.components.code import places_of

    began = Run.open(folder)
    places_of(began.about.read().get("code", {}))
    recipe = _recipe(began)
    if shared.changed(recipe, arguments.changes) != recipe:
        raise ConfigError(
            f"{', '.join(arguments.changes)} cannot change in a run that has begun; leave it out, or start another with --run."
        )
    return Run.resume(folder)


def _recipe(store: Run) -> Recipe:
    from patchgrad.runs.reading import recipe_of

    return recipe_of(store)


def _train(store: Run, arguments: argparse.Namespace) -> int:
    from patchgrad.runs import api
    from patchgrad.runs.build.tracking import tracking

    recipe = _recipe(store)
    if arguments.accept_changed_code:
        api.accept_code(recipe, store)
    try:
        with shared.installed(), tracking(recipe.trackers, store.folder, quiet=arguments.json) as tracker:
            api.train(recipe, store, tracker, cluster=arguments.cluster)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"stopped; go on with: patchgrad train --run {store.folder} --resume") from stop
    except NothingLearned:  # all of it was done and measured
        _tell(store, arguments)
        raise
    _tell(store, arguments)
    return 0


def _tell(store: Run, arguments: argparse.Namespace) -> None:
    """Where the run lies, and its page."""
    from patchgrad.viewer import report

    page = report(store.folder)
    if arguments.json:
        print(json.dumps({"run": str(store.folder), "page": str(page), "reports": [finite(plain(one)) for one in store.results.reports()]}))
    else:
        told = store.about.read().get("sandbox", {})
        if lacks := told.get("lacks"):
            print(f"\nIts sandboxes were of the weaker kind {told['backend']}, which does not enforce {', '.join(lacks)} here.")
        print(f"\nThe run is in {store.folder}; its page is {page}")
