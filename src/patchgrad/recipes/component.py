"""A part of a run by its name: one that is here, one that an installed package registers, or one of the user's own."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any, Literal, Self

from patchgrad.config import Inline, require
from patchgrad.errors import ConfigError

Kind = Literal[
    "rewards",
    "judges",
    "scaffolds",
    "tools",
    "estimators",
    "objectives",
    "curricula",
    "task_sources",
    "sandboxes",
    "policies",
    "trainers",
    "trackers",
]
BUILT_IN: Mapping[Kind, tuple[str, ...]] = {
    "rewards": ("tests",),
    "judges": (),
    "scaffolds": ("react",),
    "tools": (),
    "estimators": ("normalised", "mean", "leave-one-out", "mean-scaled", "returns"),
    "objectives": ("reinforce", "clip", "gspo", "cispo", "cispo-two-sided"),
    "curricula": ("pool",),
    "task_sources": ("synthetic", "set"),
    "sandboxes": ("bwrap", "oci", "landlock"),
    "policies": ("embedded", "vllm"),
    "trainers": ("local",),
    "trackers": ("terminal",),
}
"""The names that need no package, by what they are names of."""


@dataclass(frozen=True, slots=True)
class Component(Inline):
    """An alternative that a recipe names, with its `options`.

    A name is one of `BUILT_IN`, one that a package registers as an entry point of the group `patchgrad.KIND`, or the user's own, written
    `package.module:attribute`. TOML has it as `reward = "tests"`, or, with options, as `reward = {name = "mine:small", weight = 2.0}`; a
    command line as `--reward mine:small --reward.weight 2.0`. Another name begins without options.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        require(
            re.fullmatch(r"[\w.+-]+|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", self.name) is not None,
            f"{self.name!r} is no name of a part; it is a registered name, or package.module:attribute",
        )

    @property
    def own(self) -> bool:
        """Is it the user's, named by where it stands?"""
        return ":" in self.name

    def told(self) -> str | Mapping[str, Any]:
        """The name alone, or a table of it and the options."""
        return {"name": self.name, **self.options} if self.options else self.name

    @classmethod
    def read(cls, item: str | Mapping[str, Any], key: str) -> Self:
        """From a name, or a table of it and the options."""
        if isinstance(item, str):
            return cls(item)
        name = item.get("name")
        if not isinstance(name, str):
            raise ConfigError(f'{key} is a table without a name; write it as {{name = "package.module:attribute", option = 1}}.')
        return cls(name, {option: value for option, value in item.items() if option != "name"})

    def having(self, changes: Mapping[str, str], key: str) -> Self:
        """With other options, each a value as TOML writes it, or else text; which of them a part takes it says itself."""
        require("name" not in changes, f"{key}.name is set as {key}, which begins without options: --{key} {changes.get('name', '')}")
        return replace(self, options={**self.options, **{option: _value(text) for option, text in changes.items()}})


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def registered(kind: Kind) -> tuple[str, ...]:
    """The names that stand for a part of this kind: those that are here, and those of installed packages."""
    return (*BUILT_IN[kind], *sorted(entry_points(group=f"patchgrad.{kind}").names))


def named(kind: Kind, key: str, *parts: Component | None) -> None:
    """Refuses a part that nobody has registered; one of the user's own is looked for where a run is built."""
    unknown = [part.name for part in parts if part is not None and not part.own and part.name not in BUILT_IN[kind]]
    there = registered(kind) if unknown else ()
    lacking = [name for name in unknown if name not in there]
    known = f"; there are {', '.join(there)}" if there else ""
    require(not lacking, f"{key}: {', '.join(lacking)} is not registered{known}, and one of your own is written package.module:attribute")
