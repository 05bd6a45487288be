"""Small bugs for working code: edits found by `ast` position and spliced into the text, so that formatting stays.

A mutant is one contiguous hunk inside one function body. Signatures, docstrings, annotations, `raise` statements, logging and
`__repr__` are left alone, since a bug there hides from tests; so are f-strings, whose positions are wrong before Python 3.12.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache

from patchgrad.tasks.mutations.places import Scope, Text, functions
from patchgrad.tasks.mutations.rules import RULES
from patchgrad.tasks.sources import parsed

FAMILIES: dict[str, str] = {
    "swap_branches": "the branches of a condition change places: `a if ok else b` -> `b if ok else a`",
    "negate_cond": "a condition is negated: `if ready:` -> `if not ready:`",
    "swap_args": "two neighbouring arguments change places: `f(a, b)` -> `f(b, a)`",
    "remove_except": "a `try` loses its handlers: `try: x = int(s)` `except ValueError: x = 0` -> `x = int(s)`",
    "cmp_negate": "a comparison is turned round: `a == b` -> `a != b`",
    "wrong_name": "another local name is read: `return width` -> `return height`",
    "bool_swap": "a logical operator or literal is exchanged: `a and b` -> `a or b`, `True` -> `False`",
    "stub_body": "a body is missing: everything after the docstring -> `raise NotImplementedError`",
    "return_none": "a result is forgotten: `return total` -> `return None`",
    "remove_stmt": "a call or assignment is missing: `items.sort()` -> nothing, or `pass` in an otherwise empty block",
    "op_swap": "an arithmetic or bit operator is exchanged: `a + b` -> `a - b`",
    "remove_guard": "an early exit is missing: `if not items: return 0` -> nothing",
    "const_off1": "an integer is off by one: `parts[0]` -> `parts[1]`",
    "cmp_boundary": "a bound is off by one: `a < b` -> `a <= b`",
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug. `before` and `after` are whole lines with their line ends; `after` is empty where lines were deleted.

    `line` counts from 1: lines `line`, `line + 1`, ... of the original are `before`, and of `source` are `after`.
    """

    family: str
    function: str
    line: int
    before: str
    after: str
    source: str

    @property
    def single_line(self) -> bool:
        """Is the repair one line for one line?"""
        return len(_lines(self.before)) == len(_lines(self.after)) == 1

    def original(self) -> str:
        """The text before the bug: the inverse edit."""
        lines = _lines(self.source)
        first, last = self.line - 1, self.line - 1 + len(_lines(self.after))
        return "".join([*lines[:first], self.before, *lines[last:]])


@dataclass(frozen=True, slots=True)
class Edit:
    """A place where a bug fits, not yet checked: bytes `start:end` of the UTF-8 text become `text`."""

    start: int
    end: int
    family: str
    text: bytes
    function: str
    span: tuple[int, int]


def mutants(source: str, families: Container[str] = frozenset(FAMILIES)) -> list[Mutant]:
    """Every single bug of these families, in the order of the text.

    Each one compiles and has another syntax tree than the source: `def f(a, b):\\n    return a < b\\n` gives among others
    `return a <= b` (cmp_boundary) and `return None` (return_none). A source that does not parse has none.
    """
    seen: set[str] = set()
    found = []
    for edit in edits(source, families):
        mutant = apply(source, edit)
        if mutant is not None and mutant.source not in seen:
            seen.add(mutant.source)
            found.append(mutant)
    return found


def edits(source: str, families: Container[str] = frozenset(FAMILIES)) -> list[Edit]:
    """The candidates behind `mutants`, without the cost of checking them: sample these for a large source, then `apply`."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError):
        return []
    data = source.encode()
    if re.search(rb"\r(?!\n)", data):  # ast counts a lone carriage return as a line end; a splice by "\n" would miss the place
        return []
    text = Text(data)
    found = []
    for name, function, outermost in functions(tree):
        span = text.lines_of(outermost)
        scope = Scope(function, text)
        for node in scope.nodes:
            for family, rule in RULES.items():
                if family in families:
                    found += [Edit(start, end, family, new, name, span) for start, end, new in rule(node, scope)]
    return sorted(found, key=lambda e: (e.start, e.end, e.family, e.text))


def apply(source: str, edit: Edit) -> Mutant | None:
    """The mutant of one candidate, or `None` when it would not compile or would mean the same."""
    data = source.encode()
    first, last = edit.span
    head, tail = data[first : edit.start], data[edit.end : last]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = _tree(head + edit.text + tail)
            if ast.dump(new) == _dump(data[first:last]):
                return None
            compile(new, "<mutant>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    skipped, before, after = _hunk(_lines(data[first:last].decode()), _lines((head + edit.text + tail).decode()))
    mutated = (data[: edit.start] + edit.text + data[edit.end :]).decode()
    return Mutant(edit.family, edit.function, data[:first].count(b"\n") + skipped + 1, before, after, mutated)


def _tree(function: bytes) -> ast.Module:
    # checked alone, since parsing a whole file per candidate is what makes mutation slow; the `if` takes any indentation
    return ast.parse(b"if 1:\n" + function if function[:1] in b" \t" else function)


@lru_cache(maxsize=16)
def _dump(function: bytes) -> str:
    return ast.dump(_tree(function))


def _lines(text: str) -> list[str]:
    # not str.splitlines: it also splits at form feeds and the like, which Python source may contain
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _hunk(old: list[str], new: list[str]) -> tuple[int, str, str]:
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    return first, "".join(old[first : len(old) - last]), "".join(new[first : len(new) - last])
