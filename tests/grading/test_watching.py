"""What a witness writes into a test and sees there, what is swapped in a copy, and what is sealed."""

from __future__ import annotations
import __future__

import ast
import sys
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.grading.mutants import functions, sites
from patchgrad.grading.swaps import pieces
from patchgrad.grading.witness import watched
from patchgrad.grading_plugin.patchgrad_sealed import opened, sealed
from patchgrad.grading_plugin.patchgrad_witness import NAME, Witness

FLAGS = __future__.annotations.compiler_flag
OWN = sorted(Path(__file__).parents[1].rglob("test_*.py"))[::12]


def seen(lines: str, **names: Any) -> Witness:
    """What a witness has seen of a test of these lines, in which these names are known."""
    source = "def test_a():\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    witness = Witness(set())
    space = {NAME: witness, "raises": pytest.raises, "approx": pytest.approx, **names}
    exec(watched(source, next(functions(ast.parse(source)))), space)
    space["test_a"]()
    return witness


class Pair(NamedTuple):
    one: int
    two: int


class Odd:
    """Says that it is equal to each odd number."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other % 2 == 1


class Between:
    """Says that it is more than two and less than four, and nothing else."""

    def __gt__(self, other: object) -> bool:
        return other == 2

    def __lt__(self, other: object) -> bool:
        return other == 4


class Everything(TypeError, LookupError, ArithmeticError):
    """Is an exception of many kinds."""


class Missing(KeyError, AttributeError):
    """Is what honest code raises."""


class Length(int):
    """A number with a unit."""


def raising(kind: type[Exception]) -> Any:
    def call() -> None:
        raise kind

    return call


@pytest.mark.parametrize("value", [3, Length(3), 3.0, Fraction(3), Decimal(3), True + True + True], ids=lambda value: type(value).__name__)
def test_a_number_of_any_type_that_is_equal_to_its_own_value_is_no_lie(value: Any) -> None:
    assert not seen("assert value == 3\nassert 2 < value <= 3\nassert value == approx(3)", value=value).lies


@pytest.mark.parametrize("value", [[1, "a"], (1, 2), Pair(1, 2), {1, 2}, {"a": [1]}, "text", b"text", None], ids=str)
def test_plain_values_are_no_lies(value: Any) -> None:
    assert not seen("assert value == other", value=value, other=value).lies


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("assert value == 3", Odd()),
        ("assert [value] == [3]", Odd()),
        ("assert 2 < value < 4", Between()),
        ("case.assertEqual(value, 3)", Odd()),
        ("told(value); told.assert_called_once_with(3)", Odd()),
        ("told(a=value); told.assert_called_with(a=3)", Odd()),
        ("with raises(TypeError): value()", raising(Everything)),
    ],
)
def test_what_is_equal_to_other_values_too_is_a_lie(line: str, value: Any) -> None:
    case = type("Case", (), {"assertEqual": lambda self, left, right: None})()
    (lie,) = seen(line, value=value, told=Mock(), case=case).lies
    assert lie.startswith("test_a:")


def test_an_exception_of_two_kinds_is_no_lie() -> None:
    assert not seen("with raises(KeyError) as found: value()\nassert found.type", value=raising(Missing)).lies


def test_the_runs_of_a_test_and_those_that_come_to_their_end_are_counted() -> None:
    assert seen("assert True").runs == [1, 1]
    assert seen("if True:\n    return\nassert False").runs == [1, 0]


def test_a_test_that_what_it_tests_runs_is_told() -> None:
    source = "def test_a():\n    assert 1 == 1\n"
    witness = Witness({__file__})
    space: dict[str, Any] = {NAME: witness}
    exec(watched(source, next(functions(ast.parse(source)))), space)
    space["test_a"]()
    assert witness.lies == {"called"}


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_a_witness_can_be_written_into_every_function_of_a_real_file(path: Path) -> None:
    source = path.read_text()
    for function in functions(ast.parse(source)):
        changed = watched(source, function)
        assert (NAME in changed) == (function.body[0].lineno != function.lineno), function.name


def codes(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from codes(part)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_a_function_apart_from_its_file_has_the_code_that_it_has_there(path: Path) -> None:
    source = path.read_text()
    for piece, function in zip(pieces(source), functions(ast.parse(source)), strict=True):
        assert (piece.name, piece.line) == (function.name, function.lineno)
        alone, whole = (
            {
                (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_firstlineno)
                for code in codes(compile(text, "a.py", "exec", __future__.annotations.compiler_flag, dont_inherit=True))
                if code.co_name == piece.name
            }
            for text in (watched(piece.source, piece.function()), watched(source, function))
        )
        assert alone
        assert alone <= whole or function.decorator_list, "a decorator's line is the first one of its code"


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_what_is_broken_in_a_function_lies_at_the_same_place_in_its_file(path: Path) -> None:
    source = path.read_text()
    apart = [piece.in_file(site) for piece in pieces(source) for site in sites(piece.source)]
    assert sorted(apart, key=attrgetter("start")) == sorted(sites(source), key=attrgetter("start"))


def test_a_function_stands_below_what_it_is_in() -> None:
    (piece,) = pieces("class A:\n    if True:\n\n        @mark\n        def test_a(self): pass\n")
    assert (piece.first, piece.line, piece.source) == (4, 5, "\n\nclass A:\n if 1:\n        def test_a(self): pass\n")


@given(st.text(), st.text(), st.text(min_size=1))
def test_only_who_has_the_key_reads_what_is_sealed(text: str, key: str, label: str) -> None:
    assert opened(sealed(text, key, label), key, label) == text
    assert sealed(text + "0" * 16, key, label) != sealed(text + "0" * 16, key + "1", label)


def test_the_plugin_s_files_need_nothing_of_the_project() -> None:
    for path in sorted((Path(sys.modules["patchgrad.grading_plugin"].__file__ or "").parent).glob("patchgrad_*.py")):
        names = [node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        assert not [name for name in names if name.split(".")[0] == "patchgrad"]
