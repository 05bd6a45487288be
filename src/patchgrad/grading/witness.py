"""The text of a test in which a witness looks on: what is compared, which mock was called how, what was raised, and how often it is run.

    def test_a():                     ->   def test_a():
        assert f(1) == 2                       __patchgrad__.begins()
                                               assert __patchgrad__.same("test_a:2", "==", f(1), 2)
                                               __patchgrad__.ends()

It expects what it should: an honest attempt passes it, and the witness sees nothing (`grading_plugin/patchgrad_copies.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgrad.grading.mutants import Function, Site, Text, broken, called, parses
from patchgrad.grading_plugin.patchgrad_witness import NAME

_SIGNS = {ast.Eq: "==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_EQUAL = ("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual", "assertMultiLineEqual")
_RAISES = ("raises", "assertRaises", "assertRaisesRegex")


def watched(source: str, function: Function, counted: bool = True) -> str:
    """The source in which a witness looks on while this function, one of its outermost, runs; where it cannot be written, the same.

    How often a test is run is `counted`; what helps it is not.
    """
    text, name = Text(source), function.name
    sites = [site for statement in function.body for site in _watched(statement, text, name)]
    sites += _counted(function, text) if counted else ()
    changed = broken(source, sites)
    return changed if parses(changed) else source


def _counted(function: Function, text: Text) -> Iterator[Site]:
    """The lines that say that the function begins and ends; a function on one line has none."""
    first, last = function.body[0], function.body[-1]
    if first.lineno == function.lineno:
        return
    margin = text.content[: text.span(first)[0]].rpartition(b"\n")[2].decode()
    if not margin.isspace():
        return
    start, end = text.span(first)[0], text.span(last)[1]
    yield _site(start, start, f"{NAME}.begins()\n{margin}")
    rest = text.content[end:].partition(b"\n")[0]
    yield _site(end + len(rest), end + len(rest), f"\n{margin}{NAME}.ends()")


def _watched(node: ast.AST, text: Text, name: str, inside: bool = False) -> Iterator[Site]:
    """The places in a statement at which the witness looks on: no two of them overlap."""
    found = _place(node, text, f"{name}:{node.lineno}", inside) if isinstance(node, ast.expr) else None
    if found is not None:
        yield found
    elif not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from _watched(child, text, name, inside or isinstance(node, ast.Assert))


def _place(node: ast.expr, text: Text, place: str, inside: bool) -> Site | None:
    if isinstance(node, ast.Compare) and inside and all(type(op) in _SIGNS for op in node.ops):
        values = ", ".join(f"({text.of(part)})" for part in (node.left, *node.comparators))
        signs = " ".join(_SIGNS[type(op)] for op in node.ops)
        return _site(*text.span(node), f'{NAME}.same("{place}", "{signs}", {values})')
    if not isinstance(node, ast.Call):
        return None
    name, start = called(node.func), text.span(node.func)[0]
    if name in _EQUAL and len(node.args) > 1 and not any(isinstance(part, ast.Starred) for part in node.args[:2]):
        (left, right) = node.args[:2]
        start, end = text.span(left)[0], text.span(right)[1]
        return _site(start, end, f'*{NAME}.pair("{place}", ({text.of(left)}), ({text.of(right)}))')
    if name in _RAISES or (name.startswith("assert_") and name.endswith("_with")) or name == "assert_any_call":
        way = "raised" if name in _RAISES else "called"
        return _site(*text.span(node.func), f'{NAME}.{way}("{place}", {text.of(node.func)})')
    return None


def _site(start: int, end: int, text: str) -> Site:
    return Site("", 0, "watched", start, end, text)
