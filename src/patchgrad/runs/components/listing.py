"""What there is to name in a recipe: what is built in, and what installed packages register."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from patchgrad.errors import Refuse
from patchgrad.recipes.component import BUILT_IN, Kind
from patchgrad.runs.components.registry import plugins

KEYS: dict[Kind, str] = {
    "rewards": "reward",
    "judges": "judges",
    "scaffolds": "agent.scaffold",
    "tools": "agent.tools",
    "estimators": "stages.N.advantage.estimator",
    "objectives": "stages.N.loss.objective",
    "curricula": "curriculum",
    "task_sources": "tasks.source",
    "sandboxes": "sandbox.backend",
    "policies": "policy.implementation",
    "trainers": "trainer",
    "trackers": "trackers",
}
"""Where a recipe names a part of each kind."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A name that a recipe may have for a part: what it is, and the package that brings it, empty for what is built in."""

    kind: Kind
    key: str
    name: str
    about: str
    package: str = ""


def listed(refuse: Refuse | None = None) -> Iterator[Listed]:
    """All of them by kind. No package is imported for it: of a plugin is told where it stands. A broken package goes to `refuse`."""
    for kind in get_args(Kind):
        for name, about in BUILT_IN[kind].items():
            yield Listed(kind, KEYS[kind], name, about)
        for name, point in plugins(kind, refuse).items():
            package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an installed package"
            yield Listed(kind, KEYS[kind], name, point.value, package)
