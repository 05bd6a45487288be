"""The text of a test in which a witness looks on: what is used and compared, how mocks were called, what was raised, how often it is run.

    def test_a():                     ->   def test_a():
        assert f(1) == 2                       __patchgrad__.begins()
                                               assert __patchgrad__.same("test_a:2", "==", ("", ""), (__patchgrad__.uses(f)(1)), (2))
                                               __patchgrad__.ends()

It expects what it should: an honest attempt passes it, and the witness sees nothing (`grading_plugin/patchgrad_copies.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from patchgrad.grading.mutants import Function, Site, Text, broken, called, parses
from patchgrad.grading_plugin.patchgrad_names import NAME

_SIGNS = {ast.Eq: "==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in"}
_EQUAL = ("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual", "assertMultiLineEqual")
_RAISES = ("raises", "assertRaises", "assertRaisesRegex")
_RECORD = re.compile(r"called|call_\w+|\w+_calls|await(ed|_\w+)")  # what a mock says of its calls; of others it is no matter


def watched(source: str, function: Function, counted: bool = True) -> str:
    """The source in which a witness looks on while this function, one of its outermost, runs; where it cannot be written, the same.

    How often a test is run is `counted`; what helps it is not.
    """
    text = Text(source)
    looking = _Looking(text, function.name)
    sites = [site for statement in function.body for site in looking.sites(statement)]
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


class _Looking:
    """Writes the witness into the statements of one function."""

    def __init__(self, text: Text, name: str) -> None:
        self._text, self._name = text, name

    def sites(self, node: ast.AST, inside: bool = False) -> Iterator[Site]:
        """The outermost places below a node at which the witness looks on, each with those in it; `inside` an `assert` it compares."""
        inside = inside or isinstance(node, ast.Assert)
        if isinstance(node, ast.Compare) and inside and all(type(op) in _SIGNS for op in node.ops):
            yield self._comparison(node)
        elif isinstance(node, ast.Call):
            yield self._function(node)
            yield from self._arguments(node, inside)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _RECORD.fullmatch(node.attr):
            yield _site(*self._text.span(node.value), f'{NAME}.record("{self._place(node)}", {self._of(node.value)}, "{node.attr}")')
        elif not isinstance(node, ast.JoinedStr):  # before Python 3.12 its parts lie nowhere
            for child in ast.iter_child_nodes(node):
                yield from self.sites(child, inside)

    def _comparison(self, node: ast.Compare) -> Site:
        parts = [node.left, *node.comparators]
        values = ", ".join(f"({self._of(part, True)})" for part in parts)
        signs = " ".join(_SIGNS[type(op)] for op in node.ops)
        said = self._said(parts) if signs == "==" else ("", "")
        return _site(*self._text.span(node), f'{NAME}.same("{self._place(node)}", "{signs}", {said}, {values})')

    def _function(self, node: ast.Call) -> Site:
        name, span = called(node.func), self._text.span(node.func)
        if isinstance(node.func, ast.Attribute) and name.startswith("assert_"):
            return _site(*span, f'{NAME}.called("{self._place(node)}", {self._of(node.func.value)}, "{name}")')
        if name in _RAISES:
            return _site(*span, f'{NAME}.raised("{self._place(node)}", {self._of(node.func)})')
        return _site(*span, f"{NAME}.uses({self._of(node.func)})")

    def _arguments(self, node: ast.Call, inside: bool) -> Iterator[Site]:
        rest: list[ast.AST] = [*node.args, *node.keywords]
        if called(node.func) in _EQUAL and len(node.args) > 1 and not any(isinstance(part, ast.Starred) for part in node.args[:2]):
            rest = rest[2:]
            (start, _), (_, end) = self._text.span(node.args[0]), self._text.span(node.args[1])
            values = ", ".join(f"({self._of(part)})" for part in node.args[:2])
            yield _site(start, end, f'*{NAME}.pair("{self._place(node)}", {self._said(node.args[:2])}, {values})')
        for part in rest:
            yield from self.sites(part, inside)

    def _of(self, node: ast.expr, inside: bool = False) -> str:
        """The text of an expression, with the witness in it."""
        start = self._text.span(node)[0]
        below = [replace(site, start=site.start - start, end=site.end - start) for site in self.sites(node, inside)]
        return broken(self._text.of(node), below)

    def _said(self, parts: list[ast.expr]) -> tuple[str, ...]:
        """The text of each side that names something, which what it names can change."""
        names = [any(isinstance(one, ast.Name) for one in ast.walk(part)) for part in parts]
        return tuple(self._text.of(part) if named else "" for part, named in zip(parts, names, strict=True))

    def _place(self, node: ast.expr) -> str:
        return f"{self._name}:{node.lineno}"


def _site(start: int, end: int, text: str) -> Site:
    return Site("", 0, "watched", start, end, text)
