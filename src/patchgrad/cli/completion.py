"""complete the command's words with the key TAB: the script that bash, zsh or fish reads

Needs one more package: pip install 'patchgrad[completion]'. Verbs, options, names of recipes and keys of recipes are completed, folders and
files as ever:

  echo 'eval "$(patchgrad completion bash)"' >> ~/.bashrc
  echo 'eval "$(patchgrad completion zsh)"' >> ~/.zshrc
  patchgrad completion fish > ~/.config/fish/completions/patchgrad.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from patchgrad.errors import MissingDependency

SHELLS = ("bash", "zsh", "fish")
ASKED = "_ARGCOMPLETE"
"""The variable by which a shell asks the command what may come next."""
RECIPES = ("train", "plan")
"""The verbs that take a recipe and its keys."""


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        raise MissingDependency("completion needs one more package: pip install 'patchgrad[completion]'") from error
    print(shellcode(["patchgrad"], shell=arguments.shell).strip())
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Tell the shell that asks what may come next, and end; without the package nothing may."""
    try:
        from argcomplete import autocomplete
        from argcomplete.completers import ChoicesCompleter, FilesCompleter
    except ImportError:
        return
    from patchgrad.config import leaves
    from patchgrad.recipes import RECIPES as NAMES
    from patchgrad.recipes import laptop

    names, files = ChoicesCompleter(dict.fromkeys(sorted(NAMES), "")), FilesCompleter(("toml",))
    keys = sorted(leaves(laptop()))
    for verb, below in _verbs(parser):
        if verb not in RECIPES:
            continue
        for action in below._actions:
            if action.dest == "recipe":
                vars(action)["completer"] = lambda **asked: [*names(**asked), *files(**asked)]
        for key in keys:
            below.add_argument(f"--{key}", metavar="VALUE", help="a key of the recipe")
    autocomplete(parser)


def _verbs(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The verbs of a parser, each with its own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()
