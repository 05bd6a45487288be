"""What verbs share: recipes by name or file, and `--dotted.key value` pairs."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from patchgrad.errors import ConfigError, MissingDependency

if TYPE_CHECKING:
    from patchgrad.recipes import Evaluation, Recipe
    from patchgrad.runs.printing import Origin

T = TypeVar("T", "Recipe", "Evaluation")
FLAGS = {"--json", "--help"}
PACKAGES = ("torch", "numba", "safetensors", "tokenizers", "jinja2", "pyarrow")
"""What training needs."""
SHORT, FULL = "short", "full"
"""What `--print` prints: what differs from the preset, which is what it says alone, or every key."""
OWN = {
    "train": ({"--resume", "--print", "--accept-changed-code"}, {"--run", "--scale", "--cluster"}),
    "plan": ({"--calibrate"}, {"--cells", "--cluster", "--cores", "--like", "--scale", "--memory", "--host-memory"}),
    "evaluate": (
        {"--print", "--plan", "--resume"},  # bare words follow the second
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
                "--cluster",
            ),
            *("--compare", "--markdown", "--difference", "--power", "--size", "--rate", "--alike"),
        },
    ),
    "serve": (set(), {"--model", "--checkpoint", "--vllm", "--host", "--host-name", "--port", "--key", "--calls", "--tokens", "--seconds"}),
}
"""The words of verbs that change a recipe, without a value and with one: all others are fields of it."""


def cluster(parser: argparse.ArgumentParser) -> None:
    """Declare where attempts are made."""
    words = "make attempts on the hosts of a Ray cluster: auto, its address, or local:N for N nodes of this machine"
    parser.add_argument("--cluster", metavar="WHICH", default="", help=words)


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
        if word == "--print":
            word = f"--print={rest.pop(0) if rest[:1] == [FULL] else SHORT}"
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


def removed(parser: argparse.ArgumentParser, name: str, instead: str) -> None:
    """Declare an option of earlier versions, which no help shows: whoever types it is told what does the same."""

    class Told(argparse.Action):
        def __call__(self, *_: object) -> None:
            raise ConfigError(f"There is no {name} any more: {instead}")

    parser.add_argument(name, nargs="?", action=Told, help=argparse.SUPPRESS, default=argparse.SUPPRESS)


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
    from patchgrad.runs import reading
    from patchgrad.runs.components.places import importable

    if name in recipes.RECIPES:
        return reading.preset(name, scale)
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        if scale is not None:
            raise ConfigError(f"--scale is of a recipe's name, and {path} is a file: write scale = {json.dumps(scale)} beside its preset.")
        importable(path.parent)
        return reading.read_recipe(text_of(path))
    raise ConfigError(f"There is no recipe {name}; {nearest(name, list(recipes.RECIPES))}")


def origin(name: str, scale: str | None = None) -> Origin | None:
    """The preset that a recipe begins from, where its name or its file says one."""
    from patchgrad import recipes
    from patchgrad.config import parsed
    from patchgrad.runs.printing import Origin

    if name in recipes.RECIPES:
        return Origin(name, scale)
    table = parsed(text_of(Path(name)))
    return Origin(str(table["preset"]), table.get("scale")) if "preset" in table else None


def text_of(path: Path) -> str:
    """What a file of the user's says; `ConfigError` where it cannot be read."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path} cannot be read: {reason}.") from error


def changed(value: T, changes: Mapping[str, str]) -> T:
    """A recipe or an evaluation with what `--dotted.key value` pairs set."""
    from patchgrad.runs import reading

    return reading.change(value, changes)


def nearest(name: str, names: Sequence[str]) -> str:
    """The end of a sentence about a name that does not exist."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(names))}."


def told(refused: Sequence[str]) -> int:
    """Tell on the standard error what was wrong with each bad item of many; the exit code."""
    for sentence in dict.fromkeys(refused):
        print(f"patchgrad: {sentence}", file=sys.stderr)
    return int(bool(refused))


@contextmanager
def installed() -> Iterator[None]:
    """A package of the extra `train` that is missing is named, with the command that installs it.

    The command is within it as a whole. Whoever makes a folder is within it too, so that the folder is taken away again.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in PACKAGES:
            raise
        raise MissingDependency(f"{name} is not installed, and this needs it: pip install 'patchgrad[train]'.") from error
