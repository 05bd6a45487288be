"""The door for Python: a recipe is taken, a part of it is replaced, and it is trained, measured or planned, in a few lines.

run = train(recipe("smoke"), reward=small)
print(run.table())
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from patchgrad.config import dumps, leaves, override, written
from patchgrad.errors import ConfigError, PatchgradError
from patchgrad.recipes import RECIPES, Recipe
from patchgrad.runs import api
from patchgrad.runs.components import Parts, with_parts
from patchgrad.runs.components.code import places_of
from patchgrad.runs.components.places import importable
from patchgrad.runs.opened import Run
from patchgrad.runs.planning.plan import MemoryPlan
from patchgrad.runs.reading import preset, read_recipe, recipe_of, refuse
from patchgrad.values import Report


def recipe(name: str | Path, scale: str | None = None, changes: Mapping[str, Any] | None = None, **keys: Any) -> Recipe:
    """A recipe by its name, or from a TOML file, with some keys set: by their names, or by dotted ones in `changes`.

        recipe("smoke", seed=1)
        recipe("laptop", changes={"stages.0.limits.turns": 6, "rft.lr": 1e-3})
        recipe("mine.toml")                      # modules beside the file can be named in it: reward = "mine:small"

    Raises `ConfigError` for a name, key or value that cannot work.
    """
    given = {**(changes or {}), **keys}
    refuse(given)
    return override(_recipe(name, scale), {key: _text(value) for key, value in given.items()})


def _recipe(name: str | Path, scale: str | None) -> Recipe:
    path = Path(name)
    if str(name) in RECIPES or (path.suffix != ".toml" and not path.is_file()):
        return preset(str(name), scale)
    if scale is not None:
        raise ConfigError(f"A scale is of a recipe's name, and {path} is a file: write scale beside its preset.")
    return of_file(path)


def of_file(path: Path) -> Recipe:
    """What a recipe's file says; modules beside it can be imported from then on."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}.") from error
    importable(path.parent)
    return read_recipe(text)


def _text(value: Any) -> str:
    """As a command line has it: `0.5`, `true`, `none`, `a,b`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return "none" if value is None else written(value)


def train(
    recipe: Recipe | str,
    *,
    run: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    accept_changed_code: bool = False,
    cluster: str = "",
    **parts: Unpack[Parts],
) -> Run:
    """Trains by a recipe, with `parts` in place of those that it names, and returns the finished run.

        def small(task, trajectory, verdict):
            return verdict.resolved / (1 + trajectory.submission.count("\\n") / 100)

        run = train("smoke", reward=small, run="runs/small")
        print(run.table())

    The run's folder is `runs/NAME` of the recipe unless one is given. A folder that holds a run is gone on with only when `resume` says so,
    with the same recipe and parts; where their code has changed since, `accept_changed_code` has to say so too. `quiet` shows no progress.
    With a `cluster` attempts are made on its hosts: `auto`, an address of Ray's, or `local:3` for three nodes of this machine.

    Raises `ConfigError` for what cannot work, `StoreError` for a folder, `ComponentError` where a part fails, `TrainingStopped` where a
    guard ended the run. It can be called in a notebook, whose event loop is running.
    """
    from patchgrad.runs.build.tracking import tracking
    from patchgrad.runs.threads import load_torch

    load_torch()
    asked, registry = with_parts(_named(recipe), parts)
    path = Path(run) if run is not None else Path("runs") / asked.name
    with _folder(asked, path, resume) as folder, tracking(asked.trackers, path, registry, quiet=quiet) as tracker:
        if accept_changed_code:
            api.accept_code(asked, folder, registry)
        api.train(asked, folder, tracker, registry, cluster)
    return Run.open(path)


@contextmanager
def _folder(asked: Recipe, path: Path, resume: bool) -> Iterator[Run]:
    """The run's folder, open for writing; gone again where nothing came of a new one."""
    if resume:
        began = Run.open(path)
        places_of(began.about.read().get("code", {}))
        own, now = leaves(recipe_of(began)), leaves(asked)
        if other := [key for key in {**own, **now} if own.get(key) != now.get(key)]:
            raise ConfigError(
                f"{path} began with another recipe ({', '.join(other[:3])}): give the same one, or name another folder by run=."
            )
        with Run.resume(path) as folder:
            yield folder
        return
    with Run.create(path, dumps(asked)) as folder:
        try:
            yield folder
        except (PatchgradError, OSError):
            folder.abandon()
            raise


def evaluate(run: Run | str | Path, *, checkpoint: str | None = None, quiet: bool = False, **parts: Unpack[Parts]) -> Report:
    """Measures a checkpoint of a run, the last one unless named, on the held-out tasks of its recipe; the run is only read.

        report = evaluate("runs/small")
        report.pass_at_1.mean

    `parts` are those that the run was given as objects. Raises `StoreError` for a folder that is no run, `ConfigError` for parts that are
    missing.
    """
    from patchgrad.runs.build.tracking import tracking

    folder = run if isinstance(run, Run) else Run.open(run)
    places_of(folder.about.read().get("code", {}))
    asked, registry = with_parts(recipe_of(folder), parts)
    with tracking(asked.trackers, folder.folder, registry, quiet=quiet) as tracker:
        return api.evaluate(folder, asked, checkpoint, tracker, registry)


def plan(recipe: Recipe | str, room: int = 0) -> MemoryPlan:
    """What a recipe takes of this machine, or of one with so many bytes of memory free; nothing is trained.

        plan("laptop").peak      # bytes

    Raises `ConfigError` for a recipe that cannot work here.
    """
    return api.plan(_named(recipe), room)


def _named(given: Recipe | str) -> Recipe:
    return _recipe(given, None) if isinstance(given, str) else given
