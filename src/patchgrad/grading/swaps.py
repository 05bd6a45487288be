"""A function of a file apart from the rest of it, and what gives it another text where it is loaded.

def test_a(): assert f() == 1        and        def test_a(): assert f() == 2
->   Swap("tests/test_a.py", 1, "test_a", "def test_a(): assert f() == 2\n")
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from patchgrad.grading.mutants import Function, Site


@dataclass(frozen=True, slots=True)
class Swap:
    """A function, by the `first` of its lines with its decorators, and the source that its code comes of, within its class."""

    path: str
    first: int
    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Piece:
    """An outermost function without its decorators. Its `source` has empty lines, and the heads of what it is in, above it.

    So it stands on its own `line`. In its file it lies `before` bytes further on than in its source.
    """

    line: int
    first: int
    name: str
    source: str
    before: int

    def function(self) -> Function:
        """It, in the tree of its source."""
        return next(function for function, _ in _outermost(ast.parse(self.source), ()))

    def in_file(self, site: Site) -> Site:
        """A site of its source, as it lies in the file."""
        return replace(site, start=site.start + self.before, end=site.end + self.before)


def pieces(source: str) -> list[Piece]:
    """The outermost functions of a module and of its classes, in their order."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return [_piece(function, around, lines, starts) for function, around in _outermost(ast.parse(source), ())]


class Words:
    """What the pieces of these files say, each by its file and line: which of those that are `helping` a test can come upon.

    What helps is named by what it helps. What only pytest or unittest calls, such as `setUp`, is named nowhere.
    """

    def __init__(self, sources: Mapping[str, str], pieces: Mapping[tuple[str, int], Piece], helping: Container[str]) -> None:
        self._said = {place: _words(piece.source) - {piece.name} for place, piece in pieces.items()}
        self._named: dict[str, set[str]] = {}
        for place, piece in pieces.items():
            self._named.setdefault(piece.name, set()).update(self._said[place])
        outside = {word for path, source in sources.items() for word in _outside(source, [pieces[one] for one in pieces if one[0] == path])}
        named = set[str]().union(*self._said.values())
        self._always = outside | {name for name in self._named if name not in named and name in helping}

    def reached(self, places: Iterable[tuple[str, int]]) -> set[str]:
        """The words in these pieces, in those that they name, and in all that stands outside of pieces or is named nowhere."""
        found, new = set[str](), set(self._always).union(*(self._said[place] for place in places))
        while new:
            found |= new
            new = set[str]().union(*(self._named.get(word, ()) for word in new)) - found
        return found


def _words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text)}


def _outside(source: str, pieces: Iterable[Piece]) -> set[str]:
    """The words of a file that stand in none of its pieces, those of decorators among them."""
    inside = {number for piece in pieces for number in range(piece.line, len(piece.source.splitlines()) + 1)}
    return _words("\n".join(line for number, line in enumerate(source.splitlines(), 1) if number not in inside))


def _piece(function: Function, around: tuple[str, ...], lines: list[bytes], starts: list[int]) -> Piece:
    text = b"".join(lines[function.lineno - 1 : function.end_lineno]).decode()
    above = [f"{' ' * depth}{line}\n" for depth, line in enumerate(around)]
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    padding = "".join(["\n" * max(0, function.lineno - 1 - len(above)), *above])
    return Piece(function.lineno, first, function.name, padding + text, starts[function.lineno - 1] - len(padding.encode()))


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
