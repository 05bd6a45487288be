"""What verbs share: recipes by name or file, and `--dotted.key value` pairs."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from patchgrad.cli.check import PACKAGES
from patchgrad.config import loads
from patchgrad.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from patchgrad.recipes import Recipe
    from patchgrad.recipes.nebius2508 import Scale

FLAGS = {"--json", "--help"}
OWN = {
    "train": ({"--resume", "--print"}, {"--run", "--scale"}),
    "plan": ({"--calibrate"}, {"--scale", "--memory", "--host-memory"}),
    "evaluate": (
        {"--print", "--plan"},  # bare words follow the second
        {
            *(
                "--checkpoint",
                "--policy",
                "--model",
                "--tasks",
                "--protocol",
                "--out",
                "--predictions",
                "--recorded",
                "--run-id",
                "--concurrency",
            ),
            *("--compare", "--difference", "--power", "--size", "--rate", "--alike"),
        },
    ),
}
"""The words of verbs that change a recipe, without a value and with one: all others are fields of it."""


def split(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """A verb's own words, and the fields of the recipe that the others change.

    `["train", "laptop", "--seed", "3", "--rft.lr=1e-3"]` -> `["train", "laptop"], {"seed": "3", "rft.lr": "1e-3"}`.
    """
    if not words or words[0] not in OWN:
        return list(words), {}
    flags, valued = OWN[words[0]]
    known, changes, rest = [words[0]], {}, list(words[1:])
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in FLAGS | flags | valued or not word.startswith("--"):
            known.append(word)
            if name in valued and not equals and rest:
                known.append(rest.pop(0))
            continue
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise ConfigError(f"{word} needs a value, as in {word} 3.")
            value = rest.pop(0)
        changes[name[2:]] = value
    return known, changes


def declare(parser: argparse.ArgumentParser, verbs: Mapping[str, ModuleType], dest: str, metavar: str) -> None:
    """One verb a module: its docstring's first line is the help, the rest the examples below it, and `options` declares its words."""
    below = parser.add_subparsers(dest=dest, metavar=metavar, required=True)
    for name, module in verbs.items():
        summary, _, rest = (module.__doc__ or "").partition("\n")
        verb = below.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=rest.strip("\n"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.options(verb)


def recipe(name: str, scale: str | None = None) -> Recipe:
    """A recipe by its name, or from a TOML file; a name that is neither is refused with the nearest one."""
    from patchgrad import recipes

    if scale is not None:
        if name not in recipes.SCALED:
            raise ConfigError(f"{name} has one scale: leave --scale out, or name {', '.join(recipes.SCALED)}.")
        return recipes.SCALED[name](cast("Scale", scale))
    if name in recipes.RECIPES:
        return recipes.RECIPES[name]()
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        try:
            text = path.read_text()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
        return loads(recipes.Recipe, text)
    raise ConfigError(f"There is no recipe {name}; {nearest(name, list(recipes.RECIPES))}")


def nearest(name: str, names: Sequence[str]) -> str:
    """The end of a sentence about a name that does not exist."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(names))}."


@contextmanager
def installed() -> Iterator[None]:
    """A package of the extra `train` that is missing is named, with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in PACKAGES:
            raise
        raise MissingDependency(f"{name} is not installed, and this needs it: pip install 'patchgrad[train]'.") from error
