"""Recipes and evaluations from text: of a preset, of a file, of a run; and what a command line changes of them.

read_recipe(text)            a file: all keys, or `preset = "laptop"` and what differs; a key that moved is refused with its new name
load_recipe(text)            a run's own: what an older version wrote is read under the names of today
recipe_of(run)               the same of a folder; one that holds an evaluation is told apart
change(recipe, {"seed": "3"})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast, get_args

from patchgrad.config import flat, loads, merged, nested, of_table, override, parsed, renamed
from patchgrad.errors import ConfigError
from patchgrad.recipes import RECIPES, SCALED, Evaluation, Recipe, Scale
from patchgrad.recipes.moved import IMPLIED, MOVED, RENAMED
from patchgrad.store import Run

T = TypeVar("T", Recipe, Evaluation)


def preset(name: str, scale: str | None = None) -> Recipe:
    """A recipe by its name, at a scale where it has several."""
    if name not in RECIPES:
        raise ConfigError(f"There is no recipe {name}; there are: {', '.join(sorted(RECIPES))}.")
    if scale is None:
        return RECIPES[name]()
    if name not in SCALED:
        raise ConfigError(f"{name} has one scale: leave --scale out, or name {', '.join(SCALED)}.")
    if scale not in get_args(Scale):
        raise ConfigError(f"There is no scale {scale}; there are: {', '.join(get_args(Scale))}.")
    return SCALED[name](cast("Scale", scale))


def read_recipe(text: str) -> Recipe:
    """What a file says; one that names a `preset`, and its `scale`, says what differs from it."""
    table = parsed(text)
    refuse(flat(table))
    if "preset" not in table:
        return of_table(Recipe, table)
    name, scale = table.pop("preset"), table.pop("scale", None)
    return merged(preset(str(name), None if scale is None else str(scale)), table)


def read_evaluation(text: str) -> Evaluation:
    """What a file says; a key that it leaves out has its default."""
    table = parsed(text)
    refuse(flat(table))
    return of_table(Evaluation, table)


def change(value: T, changes: Mapping[str, str]) -> T:
    """A copy with what a command line sets; `ConfigError` for a key that moved, with its new name."""
    refuse(changes)
    return override(value, changes)


def load_recipe(text: str) -> Recipe:
    """A run's recipe, whichever version wrote it."""
    return _load(Recipe, text)


def load_evaluation(text: str) -> Evaluation:
    """The evaluation that a folder keeps, whichever version wrote it."""
    return _load(Evaluation, text)


def recipe_of(run: Run) -> Recipe:
    """What a run is trained by; `ConfigError` for a folder that holds an evaluation."""
    refuse_imported(run)
    if run.evaluates:
        raise ConfigError(
            f"{run.folder} holds an evaluation, in which nothing is trained: name a run that `patchgrad train` made; "
            f"`patchgrad view {run.folder}` is about an evaluation, and `patchgrad evaluate --out {run.folder} --resume` goes on with it."
        )
    return load_recipe(run.recipe)


def evaluation_of(run: Run) -> Evaluation:
    """What is measured in a folder; `ConfigError` for one that holds a run."""
    if not run.evaluates:
        raise ConfigError(f"{run.folder} holds a run and no evaluation: go on with it by `patchgrad train --run {run.folder} --resume`.")
    refuse_imported(run)
    return load_evaluation(run.recipe)


def setting_of(run: Run) -> Recipe | Evaluation:
    """What the attempts of a folder are made by, whichever it holds."""
    return evaluation_of(run) if run.evaluates else recipe_of(run)


def refuse_imported(run: Run) -> None:
    """`ConfigError` for a folder of attempts that others made: what made them is not here."""
    if run.about.imported:
        raise ConfigError(
            f"{run.folder} holds attempts that were imported, and the agent that made them is not here: "
            "view, query, export and `evaluate --compare` read them, and nothing can go on with them."
        )


def _load(cls: type[T], text: str) -> T:
    leaves = flat(parsed(text))
    return of_table(cls, nested(translated(leaves))) if _old(leaves) else loads(cls, text)


def translated(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """What an older version wrote, by dotted names, under the names of today and meaning what it meant."""
    if not _old(leaves):
        return dict(leaves)
    told = {renamed(key, MOVED) or key: RENAMED.get((key, item), item) if isinstance(item, str) else item for key, item in leaves.items()}
    for key, algorithm in leaves.items():
        if key.startswith("stages.") and key.endswith(".algorithm"):
            stage = key.removesuffix("algorithm")
            for name, (was, meant) in IMPLIED.get(algorithm, {}).items():
                if told.get(f"{stage}{name}") == was:
                    told[f"{stage}{name}"] = meant
    return told


def _old(leaves: Mapping[str, Any]) -> bool:
    return any(renamed(key, MOVED) for key in leaves) or any(leaves.get(key) == value for key, value in RENAMED)


def refuse(given: Mapping[str, Any]) -> None:
    """`ConfigError` for keys and values that are called otherwise now."""
    gone = [(key, now) for key in given if (now := renamed(key, MOVED))]
    if gone:
        (key, now), others = gone[0], len(gone) - 1
        also = f" {others} more of its keys have moved as well." if others else ""
        raise ConfigError(f"There is no key {key}; it is {now} now.{also}")
    for (key, value), today in RENAMED.items():
        if given.get(key) == value:
            raise ConfigError(f"{key} cannot be {value}; it is called {today} now.")
