"""Broken expectations: what they look like, that they fail, and that one file's are broken a few at a time."""

from __future__ import annotations

import ast
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from patchgrad.grading.mutants import broken, expectations, functions, sites

OWN = sorted(Path(__file__).parents[1].rglob("test_*.py"))


def once(line: str) -> list[str]:
    """The line with each of its expectations broken."""
    source = f"def test_a():\n    {line}\n"
    return [broken(source, [site]).splitlines()[1].strip() for site in sites(source)]


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("assert f(1) == 2", ["assert f(1) == 4"]),
        ("assert 2 == f(1)", ["assert 4 == f(1)"]),
        ("assert f(1) == g(2), 'm'", ["assert f(1) == g(...), 'm'", "assert f(1) == (...(g(2)), 'm'"]),
        ("assert f(1) == g(a)", ["assert f(1) == ...(g(a))"]),
        ("assert [1] == f(1)", ["assert [...] == f(1)", "assert (...([1]) == f(1)"]),
        ("assert [] == f(1)", ["assert ...([]) == f(1)"]),
        ("assert f(1) < g(2), 'ü'", ["assert f(1) > g(2), 'ü'..."]),
        ("assert 'ü' <= f(1) <= 'ö'", ["assert 'ü' > f(1) <= 'ö'..."]),
        ("assert 'ä' == f('ö')", ["assert 'ä...' == f('ö')"]),
        ("assert a in f(1)", ["assert (a, ...) in f(1)", "assert a in (f(1), ...)"]),
        ("assert f(1) == approx(2, abs=1)", ["assert f(1) == approx(..., abs=1)"]),
        ("assert f(a, b)", ["assert f(a, [b])"]),
        ("assert all(x for x in y)", ["assert (not (all(x for x in y)))"]),
        ("assert a == 1 and b == 2", ["assert a == ... and b == 2"]),
        ("assert not a", ["assert (not (not a))"]),
        ("assert a != b", ["assert (not (a != b))"]),
        ("assert f(*a)", ["assert (not (f(*a)))"]),
        ("with pytest.raises(ValueError, match='a'): f()", ["with pytest.raises(..., match='a'): f()"]),
        ("self.assertEqual(f(), 2, 'm')", ["self.assertEqual(f(), ..., 'm')"]),
        ("self.assertTrue(f())", ["self.assertFalse(f())"]),
        ("m.assert_called_once_with(1, a=2)", ["m.assert_called_once_with(..., a=2)"]),
        ("m.assert_called_with(*a)", ["m.assert_called_with(..., *a)"]),
        ("m.assert_called_with()", ["m.assert_called_with(...)"]),
        ("m.assert_any_call(a=2)", ["m.assert_any_call(a=...)"]),
        ("m.assert_called_once()", ["m.assert_not_called()"]),
        ("np.testing.assert_allclose(a, b, atol=1)", ["np.testing.assert_allclose(a, ...(b), atol=1)"]),
        ("assert eq(f(1), 2)", ["assert eq(f(1), 4)", "assert eq(f(1), [2])"]),
        ("f(1)", []),
        ("f(g(1), 2)", []),
    ],
)
def test_an_expectation_is_broken_by_what_it_expects(line: str, others: list[str]) -> None:
    """Three dots stand for whatever is written there."""
    found = once(line)
    assert len(found) == len(others)
    for other in others:
        head, _, tail = other.partition("...")
        assert any(text.startswith(head) and text.endswith(tail) and text != line for text in found), (other, found)


@pytest.mark.parametrize("value", [1, 1.5, "a", b"a", True, None, [1], (1,), {1}, {"a": 1}, range(3)], ids=str)
def test_another_value_is_of_the_same_type_where_there_can_be_one(value: object) -> None:
    """What claims to be equal to all numbers, say, is equal to another number as well."""
    seen: list[object] = []

    class Any:
        def __eq__(self, other: object) -> bool:
            seen.append(other)
            return True

    (line,) = once("assert found == value + nothing" if isinstance(value, int) else "assert found == value")
    exec(line, {"found": Any(), "value": value, "nothing": 0})
    (other,) = seen
    assert other != value
    assert type(other) is type(value) or value is None or isinstance(value, range | bool)


@pytest.mark.parametrize(
    "line",
    [
        "assert 1 + 1 == 2",
        "assert 1.5 == approx(1.5)",
        "assert [1.0, 2.0] == approx([1.0, 2.0])",
        "assert 'a' in 'cab'",
        "assert 3 > 2",
        "assert isinstance(3, int)",
        "assert not []",
        "with raises(ZeroDivisionError): 1 / 0",
        "case.assertEqual('a', 'a')",
        "case.assertIn(1, [1])",
        "case.assertAlmostEqual(0.1 + 0.2, 0.3)",
        "with case.assertRaises(KeyError): {}[0]",
        "told = Mock(); told(1, a=2); told.assert_called_once_with(1, a=2)",
        "told = Mock(); told(); told.assert_called_once_with()",
    ],
)
def test_what_is_broken_fails_where_the_test_passes(line: str) -> None:
    names: dict[str, Any] = {"raises": pytest.raises, "approx": pytest.approx, "case": unittest.TestCase(), "Mock": Mock}
    exec(line, dict(names))
    changed = once(line)
    assert changed
    for other in changed:
        with pytest.raises(Exception):  # noqa: B017, PT011  # a wrong type is as good as a failed comparison
            exec(other, dict(names))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_every_broken_expectation_of_a_real_file_can_be_read_and_moves_no_line(path: Path) -> None:
    source = path.read_text()
    found = expectations(source)
    first = [known[0] for known in found.values() if known]
    changed = broken(source, first)
    before, after = ([(one.name, one.lineno) for one in functions(ast.parse(text))] for text in (source, changed))
    assert before == after
    for known in found.values():
        kinds = [site.kind for site in known]
        assert len(set(kinds)) == len(kinds), "one of each kind"


def test_what_is_passed_by_always_comes_before_what_need_not_be() -> None:
    source = "def test_a():\n    if x:\n        assert a == 1\n    assert b == 2\n"
    assert "assert b == 4" in broken(source, expectations(source)[1])


def test_a_text_on_several_lines_is_one_expectation() -> None:
    source = "def test_a():\n    assert f() == (\n        b'a'\n        b'b'\n    )\n    assert f() == (\n        'a'\n        'b'\n    )\n"
    first, second = (broken(source, [site]) for site in sites(source))
    assert ast.parse(first), "of bytes"
    assert "f() == (\n        'ab" in second
    assert second.count("\n") == source.count("\n"), "what stands below keeps its line"


def test_expectations_are_told_by_the_function_that_has_them() -> None:
    source = "def same(a, b):\n    assert a == b\ndef test_a():\n    assert f() == 1\n    with raises(E): same(1, 2)\n"
    found = {line: [(site.function, site.kind) for site in known] for line, known in expectations(source).items()}
    assert found == {1: [("same", "value")], 3: [("test_a", "value"), ("test_a", "raises")]}


def test_what_a_helper_is_told_is_expected_too() -> None:
    source = "def test_a():\n    same(f(1), 2)\n    same(3, 4)\n    other(f(5), 6)\n"
    assert [broken(source, [site]).splitlines()[1] for site in expectations(source, {"same"})[1]] == ["    same(f(1), 4)"]


@pytest.mark.parametrize("source", ["def test_a(:\n", "def test_a():\n    assert f'{a == 1}'\n", "x = 1\n", "\0", f"x = {'-' * 5000}1\n"])
def test_where_nothing_can_be_broken_nothing_is(source: str) -> None:
    assert expectations(source) == {} or "assert (not" in broken(source, sites(source))
