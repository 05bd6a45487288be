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
BUILT_IN: Mapping[Kind, Mapping[str, str]] = {
    "rewards": {"tests": "1 where the hidden tests pass after a submission, else 0"},
    "judges": {"patch-size": "the lines that a submission adds and removes, and its files"},
    "scaffolds": {
        "react": "one thought and one command a turn, the whole history in sight (arXiv 2508.03501)",
        "mini-swe-agent": "the agent of that package, its own loop and prompts, one tool bash",
        "command": "any program, which runs in the sandbox and asks an endpoint there",
    },
    "tools": {},
    "estimators": {
        "normalised": "reward less the group's mean, divided by its deviation (GRPO, DAPO)",
        "mean": "reward less the group's mean (Dr. GRPO)",
        "leave-one-out": "reward less the mean of the others (RLOO)",
        "mean-scaled": "reward less the group's mean, divided by the mean (MaxRL)",
        "returns": "the reward itself (REINFORCE)",
    },
    "objectives": {
        "reinforce": "-A log pi",
        "clip": "the clipped surrogate of PPO, with two bounds and a dual one",
        "gspo": "the clipped ratio of whole sequences (GSPO)",
        "cispo": "the clipped ratio as a weight (CISPO)",
        "cispo-two-sided": "the same, clipped on both sides",
    },
    "curricula": {"pool": "every task once before any comes again; refreshed between stages"},
    "task_sources": {"synthetic": "generated from the seed", "set": "a folder that patchgrad tasks wrote"},
    "sandboxes": {
        "bwrap": "bubblewrap and user namespaces",
        "oci": "containers of docker or podman",
        "landlock": "for hosts without user namespaces; weaker",
    },
    "policies": {"embedded": "patchgrad's own sampler", "vllm": "a server of vLLM's in an environment of its own"},
    "trainers": {
        "local": "one process, on the cores or on one GPU; on several GPUs the same as sharded",
        "sharded": "a process a GPU, or several on the cores, with a part of the network each (FSDP2, Ulysses)",
    },
    "trackers": {
        "terminal": "progress for people",
        "tensorboard": "TensorBoard's files below the run",
        "wandb": "Weights & Biases, offline where there is no key",
        "trackio": "Trackio's database",
    },
}
"""The names that need no package, by what they are names of, with what each of them is."""


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
