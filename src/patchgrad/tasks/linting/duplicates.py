"""The same bug twice: tasks whose changed functions have the same syntax tree before and after."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from patchgrad.errors import TaskError
from patchgrad.tasks.probes import changed_lines, functions_at
from patchgrad.tasks.sets import Member
from patchgrad.tasks.sources import parsed
from patchgrad.tasks.trees import patched
from patchgrad.values import digest


def fingerprint(member: Member, files: Mapping[str, bytes]) -> str:
    """A hash of the faulty functions and the repaired ones, wherever they stand and however they are laid out.

    `files` is the tree with the bug. Where no function changes, the repair does not fit or the tree cannot be read here, as an image's
    cannot, it is of the repair itself.
    """
    lines = changed_lines(member.repair)
    named = {name: files[name] for name in lines if name.endswith(".py") and name in files}
    try:
        after = patched(files, member.repair) if named else {}
    except TaskError:  # which grading tells, of this task alone
        named, after = {}, {}
    parts = []
    for name in sorted(named):
        old, new = named[name].decode(errors="replace"), after.get(name, b"").decode(errors="replace")
        faulty = functions_at(old, lines[name])
        names = {node.name for node in faulty}
        repaired = [node for node in _functions(new) if node.name in names]
        parts += [ast.dump(_plain(node)) for node in [*faulty, *repaired]]
    return digest(*parts) if parts else digest(member.repair)


def _functions(source: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    try:
        return [node for node in ast.walk(parsed(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    except (SyntaxError, ValueError):
        return []


def _plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
    """Without its docstring, which copies of a function often do not share."""
    if len(node.body) > 1 and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
        node.body = node.body[1:]
    return node
