"""Tests that expect something else than they should: what a wrong patch that talks the tests into passing would pass as well.

A **mutant** of a test file is its text with an expectation broken: an expected value changed, a condition inverted, an exception that
nobody raises, a mock that was never called like that. An honest attempt fails it. Whatever makes tests pass without regard to what they
expect passes it too, by whichever way: replaced comparisons, `pytest.raises`, `approx`, mocks, helpers, modules or files. So nothing
here knows of any such way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

_CHANGED = (
    "(lambda v: [*v, {number}] if type(v) is list else (*v, {number}) if type(v) is tuple else {{*v, {large}}} if type(v) is set else "
    "{{**v, {large}: {number}}} if type(v) is dict else v + '{letter}' if type(v) is str else v + b'{letter}' if type(v) is bytes else "
    "v + {number} if type(v) in (int, float) else not v if type(v) is bool else (v, {number}))({value})"
)
_RAISED = ("BufferError", "ReferenceError", "SystemError", "UnboundLocalError", "StopAsyncIteration")  # which own ones hardly inherit from
_WARNED = ("BytesWarning", "ImportWarning", "PendingDeprecationWarning", "UnicodeWarning")
_OPPOSITE = {"<": ">", "<=": ">", ">": "<", ">=": "<"}
_INVERTED = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertRegex": "assertNotRegex",
    "assertGreater": "assertLessEqual",
    "assertGreaterEqual": "assertLess",
    "assert_called": "assert_not_called",
}
_INVERTED |= {after: before for before, after in _INVERTED.items()} | {"assert_called_once": "assert_not_called"}
_CALLED_WITH = ("assert_called_with", "assert_called_once_with", "assert_any_call", "assert_awaited_with", "assert_awaited_once_with")
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SIGN = re.compile("[<>]=?")
Function = ast.FunctionDef | ast.AsyncFunctionDef
_FOLDS = ("all", "any")
_BRANCHES = (ast.If, ast.Try, ast.While, ast.Match, ast.IfExp, ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Site:
    """A place where one expectation can be broken: the bytes from `start` to `end` become `text`.

    `function` is the outermost function around it and `line` its first: `test_a`, `helper`; `kind` is what decides there: `value`, `truth`,
    `raises`, `approx`, `mock` ... Not every run of the function need come by a site that is not `sure`.
    """

    function: str
    line: int
    kind: str
    start: int
    end: int
    text: str
    sure: bool = True


def sites(source: str, helpers: Container[str] = ()) -> list[Site]:
    """Where the expectations of a file can be broken, sure ones first and in their order; none where it cannot be parsed.

    `def test_a(): assert f(1) == 2` has one: its 2 becomes another number.
    """
    try:
        tree, text = ast.parse(source), Text(source)
        found = [site for function in functions(tree) for site in _of_function(function, text, helpers)]
    except (SyntaxError, ValueError, RecursionError):
        return []
    return sorted(found, key=lambda site: (not site.sure, site.start))


def broken(source: str, chosen: Sequence[Site]) -> str:
    """The source with these expectations broken; they must not overlap."""
    content = source.encode()
    for site in sorted(chosen, key=lambda site: (site.start, site.end), reverse=True):
        content = content[: site.start] + site.text.encode() + content[site.end :]
    return content.decode()


class Text:
    """Where a node of the tree lies in the file, in bytes."""

    def __init__(self, source: str) -> None:
        self.content = source.encode()
        self._lines = [0]
        for line in source.encode().splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        last, column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[last - 1] + column

    def of(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.content[start:end].decode()


def functions(tree: ast.AST) -> Iterator[Function]:
    """The outermost functions of a module and of its classes."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, Function):
            yield child
        elif not isinstance(child, ast.expr):
            yield from functions(child)


def _of_function(function: Function, text: Text, helpers: Container[str]) -> Iterator[Site]:
    def walk(node: ast.AST, sure: bool) -> Iterator[Site]:
        for kind, aim, changed in _expectations(node, helpers):
            start, end = text.span(aim)
            yield Site(function.name, function.lineno, kind, start, end, _as_long(changed(text.of(aim)), text.of(aim)), sure)
        below = sure and not isinstance(node, _BRANCHES)
        for child in () if isinstance(node, ast.JoinedStr) else ast.iter_child_nodes(node):  # before Python 3.12 its parts lie nowhere
            yield from walk(child, below)

    for statement in function.body:
        yield from walk(statement, True)


def _as_long(text: str, before: str) -> str:
    """The text on as many lines as what it takes the place of, so that all below stays where it is."""
    return text + " \\\n" * (before.count("\n") - text.count("\n"))


Expectation = tuple[str, ast.expr, Callable[[str], str]]


def _expectations(node: ast.AST, helpers: Container[str]) -> Iterator[Expectation]:
    """What this node alone expects: the kind, the expression that says so, and what to write in its place."""
    if isinstance(node, ast.Assert):
        yield from _condition(node.test)
    elif isinstance(node, ast.Call):
        name = called(node.func)
        if name in helpers:
            yield from _told(node)
        elif name == "approx" and node.args:
            yield from _value("approx", node.args[0])
        elif name in ("raises", "assertRaises", "assertRaisesRegex") and node.args:
            yield "raises", node.args[0], lambda text: _sibling(_RAISED, text)
        elif name in ("warns", "assertWarns", "assertWarnsRegex") and node.args:
            yield "warns", node.args[0], lambda text: _sibling(_WARNED, text)
        elif name.startswith("assert") and isinstance(node.func, ast.Attribute | ast.Name):
            yield from _assertion(name, node)


def _condition(test: ast.expr) -> Iterator[Expectation]:
    """A comparison expects another value, a call gets another one, `[b]`, and any other condition is inverted.

    What `approx` is in says itself what it expects. Another value is one that an object which claims to be equal to everything is equal to:
    `assert not a == b` would find it out, and be no evidence.
    """
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        yield from _condition(test.values[0])
    elif isinstance(test, ast.Compare) and any(called(part.func) == "approx" for part in ast.walk(test) if isinstance(part, ast.Call)):
        return
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], _ORDERED):
        yield "order", test, _turned(test)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        side = _expected(test.left, test.comparators[0])
        yield from _value("value", side)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.In):
        yield "value", test.comparators[0], _stranger
        yield "member", test.left, _stranger
    elif isinstance(test, ast.Call) and test.args and not isinstance(test.args[-1], ast.Starred) and called(test.func) not in _FOLDS:
        yield from _told(test)
        yield "call", test.args[-1], lambda text: f"[{text}]"
    else:
        yield "truth", test, lambda text: f"(not ({text}))"


def _value(kind: str, side: ast.expr) -> Iterator[Expectation]:
    """Another value is expected: by another literal in what is written there, where there is one, and by another value of the same type.

    What reads the literals of a test finds the other one, then.
    """
    constants = _constants(side)
    if constants:
        yield kind, constants[-1], _literal
    if not isinstance(side, ast.Constant) or not constants:
        yield kind if not constants else f"other {kind}", side, _other


def _constants(node: ast.expr) -> list[ast.Constant]:
    """The numbers and texts in an expression, in their order, but those in parts of a text."""
    inside = {id(part) for text in ast.walk(node) if isinstance(text, ast.JoinedStr) for part in ast.walk(text)}
    found = [part for part in ast.walk(node) if isinstance(part, ast.Constant) and type(part.value) in (int, float, str, bytes)]
    return sorted((part for part in found if id(part) not in inside), key=lambda part: (part.lineno, part.col_offset))


def _told(call: ast.Call) -> Iterator[Expectation]:
    """Another literal for something that compares: `same(f(1), 2)`. Where nothing is found out by a call, it may be what is tested."""
    *others, last = call.args or [call]
    if any(isinstance(part, ast.Call) for other in others for part in ast.walk(other)):
        yield from (("told", constant, _literal) for constant in _constants(last)[-1:])


def _expected(left: ast.expr, right: ast.expr) -> ast.expr:
    """The side that says what is expected: the one that calls nothing, of two such the right one."""
    calls = [any(isinstance(part, ast.Call) for part in ast.walk(side)) for side in (left, right)]
    return left if calls == [False, True] else right


def _other(text: str) -> str:
    """Another value of the same type, `[1]` -> `[1, 4]`: what is equal to anything of a type is equal to this as well."""
    number = _number(text)
    return _CHANGED.format(value=text, number=number, large=1000 + number, letter=chr(97 + number))


def _stranger(text: str) -> str:
    """Something of another kind, where another value may do as well: `f(x)` -> `(f(x), 4)`."""
    return f"({text}, {_number(text)})"


def _literal(text: str) -> str:
    """Another literal of the same kind, which looks like any other: `2` -> `4`, `'a'` -> `'ac'`."""
    value = ast.literal_eval(f"({text})")  # it may stand on several lines
    if isinstance(value, str):
        return repr(value + chr(97 + _number(text)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value + _number(text))
    return _other(text)


def _number(text: str) -> int:
    """1 to 4, always the same for a text, so that a verdict is too: nobody who has not seen the test can tell what was changed in it."""
    return 1 + crc32(text.encode()) % 4


def _sibling(names: Sequence[str], text: str) -> str:
    """Another class of the built-in ones than the one that is expected."""
    others = [name for name in names if name not in text]
    return others[_number(text) % len(others)]


def _turned(test: ast.Compare) -> Callable[[str], str]:
    """`a < b` -> `a > b`, the first of several: what claims to be less than everything claims to be more as well.

    A comparison that stands on several lines is inverted.
    """
    left, right = test.left, test.comparators[0]
    start, end = (left.end_col_offset or 0) - test.col_offset, right.col_offset - test.col_offset

    def changed(text: str) -> str:
        content = text.encode()
        sign = _SIGN.sub(lambda found: _OPPOSITE[found.group()], content[start:end].decode(), count=1)
        return content[:start].decode() + sign + content[end:].decode()

    return changed if test.lineno == right.lineno == left.end_lineno else lambda text: f"(not ({text}))"


def _assertion(name: str, call: ast.Call) -> Iterator[Expectation]:
    """A call such as `self.assertEqual(a, b)`, `mock.assert_called_once_with(1)` or `numpy.testing.assert_allclose(a, b)`."""
    if name in _INVERTED and isinstance(call.func, ast.Attribute):
        before, after = name, _INVERTED[name]
        yield "mock" if "_" in name else "unittest", call.func, lambda text: text[: len(text) - len(before)] + after
    elif name in _CALLED_WITH and call.args and not isinstance(call.args[0], ast.Starred):
        yield from _value("mock", call.args[0])
    elif name in _CALLED_WITH and call.args:
        yield "mock", call.args[0], lambda text: f"{_number(text)}, {text}"
    elif name in _CALLED_WITH and call.keywords:
        yield from _value("mock", call.keywords[0].value)
    elif name in _CALLED_WITH:
        yield "mock", call, lambda text: f"{text[:-1]}{_number(text)})"
    elif name == "assertAlmostEqual" and len(call.args) > 1:
        yield "unittest", call.args[1], lambda text: f"{1000 * _number(text)}.5"
    elif len(call.args) > 1 and not name.startswith("assertNot"):
        yield from _value("unittest" if "_" not in name else "call", call.args[1])


def called(function: ast.expr) -> str:
    """The last part of a function's name: `mock.send.assert_called_with` -> `assert_called_with`."""
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def expectations(source: str, helpers: Container[str] = ()) -> dict[int, list[Site]]:
    """The expectations of each outermost function by its first line, one of each kind: `{1: [value, raises]}`.

    What is told to `helpers`, functions that expect something themselves, is expected too: `same(f(1), 2)`.
    """
    found: dict[int, list[Site]] = {}
    for site in sites(source, helpers):
        known = found.setdefault(site.line, [])
        if site.kind not in [one.kind for one in known] and parses(broken(source, [site])):
            known.append(site)
    return found


def parses(source: str) -> bool:
    """Can this be read as Python?"""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
