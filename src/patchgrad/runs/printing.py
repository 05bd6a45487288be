"""A recipe as text, with what the paper has and why this differs."""

from __future__ import annotations

import re

from patchgrad.config import dumps, leaves, written
from patchgrad.recipes.nebius2508 import CHANGES, PAPER, READ, REPORTED, UNREPORTED, nebius2508
from patchgrad.recipes.recipe import Recipe


def remarks(recipe: Recipe) -> dict[str, str]:
    """What to say of each field: what the paper tells where this differs or is a reading of it, and why; or that it tells nothing.

    For two cores `optimiser.clip`, which is the paper's, has none. `rft.lr` has `"paper: 5e-06; a small network ..."`, and `agent.window`,
    of which the paper is silent, `"cluster: 60; what such ..."`. A value that no scale has is the reader's own, and gets no reason.
    """
    own, paper = leaves(recipe), leaves(PAPER)
    sizes = {scale: leaves(nebius2508(scale)) for scale in CHANGES}
    nearest = min(sizes, key=lambda scale: sum(own.get(key) != value for key, value in sizes[scale].items()))
    reasons = {key: change.why for change in CHANGES[nearest] for key in change.to}
    told: dict[str, str] = {}
    for key, value in own.items():
        kind = re.sub(r"\.\d+\.", ".*.", key)
        why = [reasons[key]] if key in reasons and sizes[nearest][key] == value else []
        if key in paper and paper[key] != value and key != "name":
            who = "paper" if kind in REPORTED else "cluster"
            parts = [f"{who}: {written(paper[key])}", *([f"paper: {READ[kind]}"] if kind in READ else []), *why]
            told[key] = "; ".join(parts)
        elif kind in READ:
            told[key] = f"paper: {READ[kind]}"
        elif kind in UNREPORTED:
            told[key] = f"not in the paper: {UNREPORTED[kind]}"
    return told


def printed(recipe: Recipe) -> str:
    """A recipe as TOML; where it is the paper's, with what the paper has, above each line that differs, and why."""
    if recipe.name not in ("nebius2508", "laptop"):
        return dumps(recipe)
    head = "# paper: what arXiv 2508.03501 tells; cluster: what we take at its size where it tells no number.\n"
    return head + dumps(recipe, remarks(recipe))
