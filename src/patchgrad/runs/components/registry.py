"""From the name of a part to what stands behind it.

built in       `tests`: known where it is used (`runs/build`)
plugins        `entropy`: an entry point of the group `patchgrad.rewards` that an installed package registers
the user's     `mine:small`: an attribute of a module
given          an object that was handed to `patchgrad.train`, under the name that the recipe has for it
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from typing import Any

from patchgrad.errors import ComponentError, ConfigError, Refuse, Refused
from patchgrad.recipes.component import BUILT_IN, Component, Kind
from patchgrad.runs.components.construct import Facts, bound, construct
from patchgrad.runs.components.places import imported


def plugins(kind: Kind, refuse: Refuse | None = None) -> dict[str, EntryPoint]:
    """What installed packages register of this kind, by name; a package whose list cannot be read goes to `refuse`, and has no plugins."""
    group = f"patchgrad.{kind}"
    try:
        found = list(entry_points(group=group))
    except (TypeError, ValueError, OSError):  # of one package, and nothing says of which
        found = [point for package in distributions() for point in _points(package, refuse or Refused()) if point.group == group]
    return {point.name: point for point in sorted(found, key=lambda point: point.name)}


def _points(package: Distribution, refuse: Refuse) -> list[EntryPoint]:
    try:
        return list(package.entry_points)
    except (TypeError, ValueError, OSError) as error:
        refuse(ComponentError(f"The entry points of the package {package.metadata['Name']} cannot be read ({error}): install it again."))
        return []


@dataclass(frozen=True, slots=True)
class Registry:
    """Finds and makes the parts that a recipe names; those `given` in Python come first. What was made without facts of a run is kept."""

    given: Mapping[tuple[Kind, str], object] = field(default_factory=dict)
    _made: dict[tuple[Kind, str, str], Any] = field(default_factory=dict)

    def find(self, kind: Kind, part: Component, key: str) -> Any:
        """The function, class or object behind a name; `ConfigError` where it cannot be found."""
        if (kind, part.name) in self.given:
            return self.given[kind, part.name]
        if part.own:
            return imported(part.name, key)
        point = plugins(kind).get(part.name)
        if point is None:
            raise ConfigError(f"{key}: {part.name} is not registered; there are {', '.join((*BUILT_IN[kind], *plugins(kind)))}.")
        return imported(point.value, f"{key} ({part.name})") if ":" in point.value else point.load()

    def function(self, kind: Kind, part: Component, key: str) -> Any:
        """A part that is called with values: a function, with its options as keywords, or an object of a class that is made with them."""
        found = self.find(kind, part, key)
        if inspect.isclass(found):
            return self._once(kind, part, lambda: construct(key, found, part.options, {}))
        if part.options and not inspect.isroutine(found):
            raise ConfigError(f"{key}: {part.name} is made already, so it takes no options; name its class, or leave them out.")
        return self._once(kind, part, lambda: bound(key, found, part.options))

    def make(self, kind: Kind, part: Component, key: str, facts: Facts) -> Any:
        """A part that is an object: of a class or by a function that is called with options and facts, or one that is there already."""
        found = self.find(kind, part, key)
        if callable(found):
            return construct(key, found, part.options, facts)
        if part.options:
            raise ConfigError(f"{key}: {part.name} is made already, so it takes no options; name its class, or leave them out.")
        return found

    def _once(self, kind: Kind, part: Component, make: Callable[[], Any]) -> Any:
        known = (kind, part.name, repr(sorted(part.options.items())))
        if known not in self._made:
            self._made[known] = make()
        return self._made[known]


BY_NAME = Registry()
"""Of a recipe whose parts all stand behind their names."""
