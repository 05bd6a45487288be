"""A hash of the user's code: it is a part of the run, since another reward or another tool makes another run.

    {"reward": {"name": "mine:small", "digest": "5f0c...", "file": "examples/mine.py"}}

Of what stands in a module it is the module's file, of what a program or a notebook defines its own source, and where there is none its
compiled code. What a module imports in turn is not followed.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError
from patchgrad.recipes.recipe import Recipe
from patchgrad.runs.components.parts import Named, named_parts
from patchgrad.runs.components.places import importable
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.store import Run
from patchgrad.values import digest

Code = Mapping[str, Mapping[str, str]]


def code_of(recipe: Recipe, registry: Registry) -> dict[str, dict[str, str]]:
    """The digest of every part of a recipe that is not built in, by the key that names it."""
    found: dict[str, dict[str, str]] = {}
    for one in named_parts(recipe):
        if one.foreign:
            part = registry.find(one.kind, one.part, one.key)
            found[one.key] = {"name": one.part.name, "digest": digest_of(part), "file": _module_file(part)}
    return found


def keep_code(recipe: Recipe, run: Run, registry: Registry, *, accept_changed: bool = False) -> None:
    """The run keeps what code of the user's it is made with; `ConfigError` where it has kept another one, unless that is accepted."""
    code, before = code_of(recipe, registry), run.about.read().get("code", {})
    if not accept_changed:
        refuse_changed(before, code, run.folder)
    if code != before:
        run.about.write_code(code)


def refuse_changed(before: Code, now: Code, folder: Path) -> None:
    """`ConfigError` for a part whose code is another one than when the run began."""
    changed = [key for key, told in before.items() if key in now and now[key]["digest"] != told["digest"]]
    if changed:
        key = changed[0]
        told, also = before[key], f", and {len(changed) - 1} more parts" if changed[1:] else ""
        place = f" in {told['file']}" if told.get("file") else ""
        raise ConfigError(
            f"The code of {key} ({told['name']}{place}) has changed since {folder} began{also}: undo the change, start another run, or "
            "go on with other code by --accept-changed-code (in Python accept_changed_code=True)."
        )


def places_of(code: Code) -> None:
    """Makes the modules of a run's parts importable: they stand where they stood when the run began, unless they can be found already."""
    for told in code.values():
        file, module = Path(told.get("file", "")), told["name"].partition(":")[0]
        if told.get("file") and file.is_file() and ":" in told["name"]:
            importable(file.parents[module.count(".") + (file.name == "__init__.py")])


def registry_of(run: Run) -> Registry:
    """Of a run that is read: its parts by their names, with their modules where they stood when it began."""
    places_of(run.about.read().get("code", {}))
    return BY_NAME


def digest_of(part: object) -> str:
    """Of a function, a class or an object: its code, with what a `partial` binds and the fields of a dataclass."""
    if isinstance(part, functools.partial):
        return digest(digest_of(part.func), repr(part.args), repr(sorted(part.keywords.items())))
    if isinstance(part, list | tuple):
        return digest(*(repr(item) for item in part))
    source = part if inspect.isroutine(part) or inspect.isclass(part) else type(part)
    fields = repr(part) if is_dataclass(part) and not inspect.isclass(part) else ""
    return digest(_source(source), fields)


def files_of(parts: Iterable[Named], registry: Registry) -> dict[str, bytes]:
    """The files that other machines need for parts of the user's, by their names below a folder: modules and packages beside the recipe.

    Of `mine.rewards:small` these are all of the package `mine`. What is installed has to be installed there too.
    """
    found = dict[str, bytes]()
    for part in (registry.find(one.kind, one.part, one.key) for one in parts if one.foreign):
        file, module = Path(_module_file(part)), _module_of(part)
        if not file.is_absolute() or "site-packages" in file.parts:
            continue
        root = file.parents[module.count(".") + (file.name == "__init__.py")]
        package = root / module.partition(".")[0]
        for path in package.rglob("*.py") if package.is_dir() else [file]:
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


def _source(part: Any) -> str | bytes:
    if file := _module_file(part):
        return Path(file).read_bytes()
    try:
        return inspect.getsource(part)
    except (OSError, TypeError):
        return repr(_compiled(part))


def _compiled(part: object) -> object:
    """The code of a function, or of all functions of a class, as something whose text is the same wherever it is printed."""
    if inspect.isfunction(part):
        return _instructions(part.__code__), repr(part.__defaults__), repr(part.__kwdefaults__)
    if inspect.isclass(part):
        return [(name, _compiled(value)) for name, value in sorted(vars(part).items()) if inspect.isfunction(value)]
    return type(part).__name__


def _instructions(code: types.CodeType) -> tuple[object, ...]:
    return code.co_code, code.co_names, code.co_varnames, tuple(_constant(one) for one in code.co_consts)


def _constant(one: object) -> object:
    if isinstance(one, types.CodeType):
        return _instructions(one)
    return sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one)  # a set is printed in another order by every process


def _module_of(part: Any) -> str:
    source = part if inspect.isroutine(part) or inspect.isclass(part) else type(part)
    return source.__module__ or ""


def _module_file(part: Any) -> str:
    """The file of the module that a part is from; empty for what a program or a notebook defined."""
    name = _module_of(part)
    module = sys.modules.get(name)
    file = vars(module).get("__file__") if module is not None else None
    return str(Path(file).absolute()) if file and name != "__main__" and file.endswith(".py") else ""
