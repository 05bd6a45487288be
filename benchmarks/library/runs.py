"""Runs that are taken to their end in a folder, from nothing or from where another one was; one that stopped half-way goes on."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgrad.config import dumps
from patchgrad.errors import NothingLearned
from patchgrad.recipes import Recipe
from patchgrad.runs.api import train
from patchgrad.runs.starting import start_from
from patchgrad.runs.trackers.terminal import choose
from patchgrad.store import Run, finite, plain

PATIENT = {"guards.patience": "1000"}
"""Tendencies are what is studied, so no guard ends an arm for one."""


def said(recipe: Recipe) -> dict[str, Any]:
    """A recipe without its name and seed, as a file of JSON holds it: two of a study are of one recipe where these are the `same`."""
    told: dict[str, Any] = json.loads(json.dumps(finite(plain(replace(recipe, name="", seed=0)))))
    return told


def same(then: Any, now: Any) -> bool:
    """Is what was said of a recipe true of it now? A key that the older one does not tell came later, and is not compared.

    `{"lr": 1.0}` is the same as `{"lr": 1.0, "warmup": 0}`, and not the other way round.
    """
    if isinstance(then, dict) and isinstance(now, dict):
        return all(name in now and same(value, now[name]) for name, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(then) == len(now) and all(map(same, then, now))
    return bool(then == now)


def kept(out: Path, seeds: Iterable[int], recipe: Recipe) -> dict[int, Any]:
    """What stands in `OUT/SEED.json` for each seed that is there; a seed of another recipe than this one ends the program."""
    found = {seed: json.loads((out / f"{seed}.json").read_bytes()) for seed in seeds if (out / f"{seed}.json").exists()}
    if other := [seed for seed in found if not same(found[seed]["recipe"], said(recipe))]:
        raise SystemExit(f"Seeds {other} in {out} are of another recipe than {recipe.name} has now: move them away to run them again.")
    return found


def finished(folder: Path, recipe: Recipe, before: Path | None = None, only: Collection[str] | None = None) -> Path:
    """The folder of a run that is done; with `before` it begins from that one's last checkpoint, and draws from tasks of `only` alone."""
    with _begun(folder, recipe, before, only) as run, choose(quiet=False) as progress:
        if run.recipe != dumps(recipe):
            raise SystemExit(f"{folder} is a run of another recipe: move it away.")
        with suppress(NothingLearned):  # that is a result, too
            train(recipe, run, progress)
    return folder


def _begun(folder: Path, recipe: Recipe, before: Path | None, only: Collection[str] | None) -> Run:
    if folder.exists():
        return Run.resume(folder)
    return start_from(before, folder, recipe, only=only) if before else Run.create(folder, dumps(recipe))
