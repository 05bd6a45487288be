"""A recipe as text: what differs from its preset, with what the preset has otherwise than the paper, and why; or every key."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from patchgrad.config import differing, dumps, leaves, written
from patchgrad.recipes import Evaluation, Recipe, Scale
from patchgrad.recipes.change import Change
from patchgrad.recipes.cluster_tiny import CLUSTER_TINY
from patchgrad.recipes.laptop import SMOKE
from patchgrad.recipes.mini import MINI
from patchgrad.recipes.nebius2508 import CHANGES, PAPER, READ, REPORTED, UNREPORTED, nebius2508
from patchgrad.recipes.rows import Row
from patchgrad.recipes.smol import LONG, SMOL
from patchgrad.recipes.stage import Stage
from patchgrad.recipes.tiny import TINY
from patchgrad.runs.reading import preset
from patchgrad.runs.untaught import notes

WIDTH = 140
MADE_FROM: Mapping[str, tuple[str, tuple[Change, ...]]] = {
    "smoke": ("laptop", SMOKE),
    "tiny": ("smoke", TINY),
    "cluster-tiny": ("smoke", CLUSTER_TINY),
    "mini": ("laptop", MINI),
    "smol": ("laptop", SMOL),
    "smol-long": ("smol", LONG),
}
"""Presets that are made from another one by changes."""
HEAD = "# paper: what arXiv 2508.03501 tells; cluster: what we take at its size where it tells no number.\n"


@dataclass(frozen=True, slots=True)
class Origin:
    """The preset that a recipe begins from: its name, and its scale where it has several."""

    name: str
    scale: str | None = None

    @property
    def recipe(self) -> Recipe:
        """The preset itself."""
        return preset(self.name, self.scale)

    @property
    def words(self) -> str:
        """As a command line names it."""
        return f"{self.name} --scale {self.scale}" if self.scale else self.name

    @property
    def toml(self) -> str:
        """As a file names it."""
        return f"preset = {written(self.name)}\n" + (f"scale = {written(self.scale)}\n" if self.scale else "")


def nearest(recipe: Recipe) -> Origin:
    """The preset that a recipe shares most with."""
    own = leaves(recipe)
    known = [*map(Origin, ("laptop", *MADE_FROM)), Origin("nebius2508", "gpu"), Origin("nebius2508", "cluster")]
    return min(known, key=lambda origin: _apart(own, leaves(origin.recipe)))


def short(recipe: Recipe, origin: Origin) -> str:
    """What a recipe has otherwise than its preset, as a file that reads back; below it, as comments, what the preset changes itself."""
    every = f"patchgrad train {origin.words} --print full"
    head = f"# What differs from the preset; {every} prints every key of that.\n{origin.toml}"
    body = differing(recipe, origin.recipe).lstrip("\n")
    told = _noted(recipe) + head + ("\n" if body.startswith("[") else "") + body
    before, changes = _before(origin)
    if not changes:
        return told
    lines = [line for change in changes for line in _because(change, resolved(before.recipe), origin.recipe)]
    return "\n".join([told, f"# What the preset itself has otherwise than {before.words}, and why:", *lines]) + "\n"


def _before(origin: Origin) -> tuple[Origin, Sequence[Change]]:
    """The preset that a preset is made from, and the changes that make it."""
    if origin.name in MADE_FROM:
        name, changes = MADE_FROM[origin.name]
        return Origin(name), changes
    scale = "laptop" if origin.name == "laptop" else origin.scale or "laptop"
    return Origin("nebius2508", "cluster"), CHANGES[cast("Scale", scale)]


def _because(change: Change, before: Mapping[str, Any], recipe: Recipe) -> list[str]:
    """A change as comments: its reason, then each key with the value that it had before."""
    own = leaves(recipe)
    reason = textwrap.wrap(change.why, WIDTH, initial_indent="#\n# ", subsequent_indent="# ")
    keys = dict.fromkeys(_leaf(key, own) for key in change.to)
    return [*reason, *(f"#   {key} = {written(own[key])}   was {written(before[key])}" for key in keys)]


def _leaf(key: str, own: Mapping[str, Any]) -> str:
    """The key of which another is a part: the options of a part of a run stand in one line with its name."""
    while key not in own:
        key = key.rpartition(".")[0]
    return key


def full(recipe: Recipe) -> str:
    """Every key as TOML; where the recipe is the paper's, with what the paper has, above each line that differs, and why."""
    if recipe.name not in ("nebius2508", "laptop"):
        return _noted(recipe) + dumps(recipe, of_rows(recipe))
    return _noted(recipe) + HEAD + dumps(recipe, remarks(recipe))


def _noted(recipe: Recipe) -> str:
    """What to know of the recipe, as comments above it."""
    return "".join(textwrap.fill(note, WIDTH, initial_indent="# ", subsequent_indent="# ") + "\n#\n" for note in notes(recipe))


def of_evaluation(evaluation: Evaluation, every: bool) -> str:
    """An evaluation as TOML: all of it, or what it has otherwise than a plain one; both read back."""
    if every:
        return dumps(evaluation)
    return "# What differs from the defaults; --print full prints every key.\n" + differing(evaluation, Evaluation())


def of_rows(recipe: Recipe) -> dict[str, str]:
    """What an algorithm has of its own where a stage sets nothing: `{"stages.0.loss.clip_low": "dapo: 0.2"}`."""
    own, whole = leaves(recipe), resolved(recipe)
    return {key: f"{recipe.stages[int(key.split('.')[1])].algorithm}: {written(whole[key])}" for key in own if own[key] != whole[key]}


def resolved(recipe: Recipe) -> dict[str, Any]:
    """The fields of a recipe by dotted names; what a stage leaves to its algorithm has the algorithm's value."""
    stages = tuple(_whole(stage) for stage in recipe.stages)
    return leaves(replace(recipe, stages=stages))


def _whole(stage: Stage) -> Stage:
    row, names = stage.row, {field.name for field in fields(Row)}
    taken = [{f.name: getattr(row, f.name) for f in fields(part) if f.name in names} for part in (stage.advantage, stage.loss)]
    return replace(stage, advantage=replace(stage.advantage, **taken[0]), loss=replace(stage.loss, **taken[1]))


def remarks(recipe: Recipe) -> dict[str, str]:
    """What to say of each field: what the paper tells where this differs or is a reading of it, and why; or that it tells nothing.

    For two cores `optimiser.clip`, which is the paper's, has none. `rft.lr` has `"paper: 5e-06; a small network ..."`, and `agent.window`,
    of which the paper is silent, `"cluster: 60; what such ..."`. A value that no scale has is the reader's own, and gets no reason.
    """
    own, paper = resolved(recipe), resolved(PAPER)
    sizes = {scale: resolved(nebius2508(scale)) for scale in CHANGES}
    closest = min(sizes, key=lambda scale: _apart(own, sizes[scale]))
    reasons = {key: change.why for change in CHANGES[closest] for key in change.to}
    told: dict[str, str] = {}
    for key, value in own.items():
        kind = re.sub(r"\.\d+\.", ".*.", key)
        why = [reasons[key]] if key in reasons and sizes[closest][key] == value else []
        if key in paper and paper[key] != value and key != "name":
            who = "paper" if kind in REPORTED else "cluster"
            parts = [f"{who}: {written(paper[key])}", *([f"paper: {READ[kind]}"] if kind in READ else []), *why]
            told[key] = "; ".join(parts)
        elif kind in READ:
            told[key] = f"paper: {READ[kind]}"
        elif kind in UNREPORTED:
            told[key] = f"not in the paper: {UNREPORTED[kind]}"
    rows = of_rows(recipe)
    return told | {key: f"{row}; {told[key]}" if key in told else row for key, row in rows.items()}


def _apart(own: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    return sum(own.get(key) != value for key, value in other.items())
