"""Where modules of the user's are looked for: the current directory, and the folder of the recipe's file."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from patchgrad.errors import ConfigError


def importable(folder: Path) -> None:
    """Modules of this folder can be imported from now on, after those that can be already, so that none of these is hidden."""
    place = str(folder.absolute())
    if place not in sys.path:
        sys.path.append(place)


def imported(name: str, key: str) -> object:
    """What stands at `package.module:attribute`; `ConfigError` that says which `key` asked for it, and what is wrong with it."""
    importable(Path.cwd())
    module, _, attribute = name.partition(":")
    if module == "__main__":
        raise ConfigError(
            f"{key} was an object of a Python program, {attribute}: resume the run there, by patchgrad.train with the same parts, or move "
            f"{attribute} into a module and name it, as in --{key} mine:{attribute}."
        )
    try:
        found: object = import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise ConfigError(
                f"{key} is {name}, and there is no module {error.name}: put it beside the recipe's file or into the current directory, or "
                "install the package that has it."
            ) from error
        raise ConfigError(f"{key} is {name}, and {module} needs {error.name}, which is not installed.") from error
    except Exception as error:
        raise ConfigError(f"{key} is {name}, and {module} cannot be imported: {type(error).__name__}: {error}.") from error
    for part in attribute.split("."):
        if part not in dir(found):
            raise ConfigError(f"{key} is {name}, and {module} ({_file(found)}) has no {attribute}.")
        found = getattr(found, part)
    return found


def _file(module: object) -> str:
    return str(vars(module).get("__file__", "built in")) if isinstance(module, type(sys)) else type(module).__name__
