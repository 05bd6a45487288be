"""Wrong repairs that must not win: the faulty functions emptied, deleted, and made to return what the report says they should."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from patchgrad.tasks.sources import parsed, text_of
from patchgrad.tasks.trees import touched

Function = ast.FunctionDef | ast.AsyncFunctionDef
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*$")
_EXPECTED = re.compile(r"^Expected: `(.+)`$", re.MULTILINE)


def probes(repair: str, files: Mapping[str, bytes], report: str = "") -> dict[str, dict[str, str]]:
    """What was done -> the files that it changes, as they are then; for the functions of `files` (with the bug) that the repair changes.

    For a bug in `def area(a, b): return a + b` and a report that expects `6`: one with the body `pass`, one without the function, and one
    with the body `return 6`. None where the repair changes no function.
    """
    found = {}
    bodies = {"does nothing": "pass", "is deleted": None}
    if expected := _expected(report):
        bodies[f"always returns {expected}"[:60]] = f"return {expected}"
    for words, body in bodies.items():
        sources = {name: text_of(files[name]) for name in _places(repair, files)}
        changed = {name: _changed(source, _places(repair, files)[name], body) for name, source in sources.items()}
        if different := {name: text for name, text in changed.items() if text not in ("", sources[name])}:
            found[f"a patch after which the function {words}"] = different
    return found


def functions_at(source: str, lines: set[int]) -> list[Function]:
    """The innermost functions that hold one of these lines (from 1)."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError):
        return []
    every = [node for node in ast.walk(tree) if isinstance(node, Function)]
    holding = [node for node in every if any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)]
    return [node for node in holding if not any(other is not node and other in ast.walk(node) for other in holding)]


def changed_lines(patch: str) -> dict[str, set[int]]:
    """File -> lines of its earlier text (from 1) that a patch takes away or adds something at."""
    found: dict[str, set[int]] = {}
    name, line = "", 0
    for text in patch.split("\n"):  # str.splitlines would also split at form feeds, which sources may hold
        if text.startswith("--- "):
            name = text[4:].split("\t")[0].partition("/")[2]
        elif hunk := _HUNK.match(text):
            line = int(hunk[1])
        elif text.startswith("-"):
            found.setdefault(name, set()).add(line)
            line += 1
        elif text.startswith("+") and not text.startswith("+++"):
            found.setdefault(name, set()).add(max(1, line - 1))
        elif text.startswith(" "):
            line += 1
    return found


def _places(repair: str, files: Mapping[str, bytes]) -> dict[str, set[int]]:
    lines = changed_lines(repair)
    return {name: lines[name] for name in touched(repair) if name in lines and name in files and name.endswith(".py")}


def _changed(source: str, lines: set[int], body: str | None) -> str:
    rows = source.split("\n")
    for node in sorted(functions_at(source, lines), key=lambda n: -n.lineno):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        inside = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))] or node.body
        indent = " " * node.col_offset
        if body is None:
            rows[first - 1 : node.end_lineno] = [f"{indent}pass"]
        elif inside[0].lineno > node.lineno:
            rows[inside[0].lineno - 1 : node.end_lineno] = [f"{indent}    {body}"]
    text = "\n".join(rows)
    try:
        parsed(text)
    except SyntaxError:
        return ""
    return text


def _expected(report: str) -> str:
    """What the report says should come out, where that is a value that can be written down."""
    found = _EXPECTED.search(report)
    try:
        return found[1] if found and ast.literal_eval(found[1]) is not None else ""
    except (ValueError, SyntaxError):
        return ""
