"""Which modules help the tests of a task, whatever their folder is called: told from what its tests load with the solution.

Folders named `test` and `tests` are known without it (`Guard`).
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from patchgrad.grading.guard import Guard, folders, touched
from patchgrad.values import Task


def helpers(task: Task, solution: str, sources: Mapping[str, str]) -> tuple[str, ...]:
    """The modules beside tests that decide, or below them, that only tests load; `sources` are the texts of all that was loaded, by path.

    A folder in which the solution changes something, or of which something outside imports a module, holds code under test, and so does
    the root of the repository.

    With the test `spec/test_a.py`, a solution that changes `shop/cart.py`, and `spec/same.py`, `shop/cart.py` and `shop/money.py` loaded:

        helpers(task, solution, sources)   ->   ("spec/same.py",)
    """
    guard = Guard(task)
    changed = set(touched(solution)) - guard.deciding
    found: set[str] = set()
    for folder in sorted({posixpath.dirname(path) for path in guard.deciding} - {""}):
        inside = {path for path in sources if folder in folders(path)}
        imported = {name for path in sources.keys() - inside if not guard.guards(path) for name in _imports(path, sources[path])}
        if not any(folder in folders(path) for path in changed) and not any(name in imported for path in inside for name in _names(path)):
            found |= inside
    return tuple(sorted(path for path in found if not guard.guards(path)))


def unknown(task: Task, loaded: Sequence[str]) -> bool:
    """Was something loaded beside a test that decides, or below it, of which the names of its folders do not tell what it is?"""
    guard = Guard(task)
    beside = {posixpath.dirname(path) for path in guard.deciding} - {""}
    return any(not guard.guards(path) and beside.intersection(folders(path)) for path in loaded)


def _names(path: str) -> Iterator[str]:
    """What a module may be imported as: `a/b/c.py` -> `a.b.c`, `b.c`, `c`; a package by its folder."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    yield from (".".join(parts[at:]) for at in range(len(parts)))


def _imports(path: str, source: str) -> Iterator[str]:
    """All that a file may import: `from a.b import c` -> `a`, `a.b`, `a.b.c`, and relative names as from the root of the repository."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folders(path)[: node.level][-1:] if node.level else []
            base = ".".join([*(above[0].split("/") if above and above[0] else []), *([node.module] if node.module else [])])
            names = [f"{base}.{name.name}".strip(".") for name in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: at + 1]) for at in range(len(parts)))
