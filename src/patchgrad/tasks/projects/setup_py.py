"""What an older repository says of itself in `setup.py`, read without running it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from patchgrad.tasks.projects.roots import of_packages


@dataclass(frozen=True, slots=True)
class Setup:
    """The words of the call to `setup` that are plain in the text; empty where they are computed."""

    name: str = ""
    version: str = ""
    licence: str = ""
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


def read_setup(source: str) -> Setup:
    """From `setup(name="box", install_requires=needs)`, with `needs = ["six"]` above it: name `box`, requires `six`."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return Setup()
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func).rpartition(".")[2] == "setup"]
    if not calls:
        return Setup()
    known = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    said = {word.arg: _plain(word.value, known) for word in calls[-1].keywords if word.arg}
    extras, folders = said.get("extras_require"), said.get("package_dir")
    found = [word.value for word in calls[-1].keywords if word.arg == "packages" and isinstance(word.value, ast.Call)]
    return Setup(
        _text(said.get("name")),
        _text(said.get("version")),
        _text(said.get("license")),
        _list(said.get("install_requires")),
        (*_list(said.get("tests_require")), *(r for found in (extras if isinstance(extras, dict) else {}).values() for r in _list(found))),
        (*of_packages(folders if isinstance(folders, dict) else {}), *(where for call in found for where in _searched(call, known))),
    )


def _searched(call: ast.Call, known: Mapping[str, ast.expr]) -> list[str]:
    """`find_packages("src")` or `find_packages(where="src")` -> `["src"]`."""
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "where")]
    return [where for where in (_plain(node, known) for node in given) if isinstance(where, str)]


def _plain(node: ast.expr, known: Mapping[str, ast.expr]) -> object:
    if isinstance(node, ast.Name) and node.id in known:
        node = known[node.id]
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.splitlines()
    return tuple(r.strip() for r in value if isinstance(r, str) and r.strip()) if isinstance(value, list | tuple) else ()
