"""What makes another text of a file of the one that is loaded: the functions whose text differs, each as a source of its own.

def test_a(): assert f() == 1        and        def test_a(): assert f() == 2
->   [Swap("tests/test_a.py", 1, "test_a", "def test_a(): assert f() == 2\n")]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchgrad.grading.mutants import Function


@dataclass(frozen=True, slots=True)
class Swap:
    """A function, by the `first` of its lines with its decorators, and the source that its code comes of, within its class."""

    path: str
    first: int
    name: str
    source: str


def swaps(path: str, there: str, wanted: str) -> list[Swap]:
    """What makes `wanted` of what is `there`, two texts of a file whose outermost functions are the same ones in the same order."""
    return [
        Swap(path, here.first, here.name, other.padding + other.text)
        for here, other in zip(_pieces(there), _pieces(wanted), strict=True)
        if here.text != other.text
    ]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A function's own lines, and what puts them where they stand: empty lines, and the heads of what it is in."""

    first: int
    name: str
    padding: str
    text: str


def _pieces(source: str) -> list[_Piece]:
    lines = source.encode().splitlines(keepends=True)
    return [_piece(function, around, lines) for function, around in _outermost(ast.parse(source), ())]


def _piece(function: Function, around: tuple[str, ...], lines: list[bytes]) -> _Piece:
    text = b"".join(lines[function.lineno - 1 : function.end_lineno]).decode()
    above = [f"{' ' * depth}{line}\n" for depth, line in enumerate(around)]
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return _Piece(first, function.name, "".join(["\n" * max(0, function.lineno - 1 - len(above)), *above]), text)


def _outermost(tree: ast.AST, around: tuple[str, ...]) -> Iterator[tuple[Function, tuple[str, ...]]]:
    """The outermost functions, each with the lines that its own have to stand below."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function):
            yield child, around
        elif isinstance(child, ast.ClassDef):
            yield from _outermost(child, (*around, f"class {child.name}:"))
        elif isinstance(child, ast.stmt):
            yield from _outermost(child, (*around, "if 1:"))
        elif not isinstance(child, ast.expr):
            yield from _outermost(child, around)
