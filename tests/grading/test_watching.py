"""What a witness writes into a test and sees there, what is swapped in a copy, and what is sealed."""

from __future__ import annotations
import __future__

import ast
import contextlib
import json
import signal
import sys
import threading
from collections import UserDict, UserList, UserString
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple
from unittest.mock import ANY, CallableMixin, MagicMock, Mock, NonCallableMock, call, create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.grading.mutants import functions, sites
from patchgrad.grading.swaps import pieces
from patchgrad.grading.witness import watched
from patchgrad.grading_plugin import FOLDER
from patchgrad.grading_plugin.patchgrad_names import NAME
from patchgrad.grading_plugin.patchgrad_sealed import opened, sealed

sys.path.append(str(FOLDER))  # where its files find each other, as they do in a sandbox
Functions, Remade, Calls, Names, Witness = (
    getattr(import_module(f"patchgrad_{name.lower()}"), kind)
    for name, kind in (("functions", "Functions"), ("functions", "Remade"), ("mocks", "Calls"), ("names", "Names"), ("witness", "Witness"))
)
VALUES = import_module("patchgrad_values")
FLAGS = __future__.annotations.compiler_flag
REAL = {(kind, name): vars(kind)[name] for kind, name in ((CallableMixin, "_increment_mock_call"), (NonCallableMock, "__init__"))}
CALLS = Calls({__file__})
REMADE = Remade()
sys.addaudithook(REMADE.note)
FUNCTIONS = Functions(("json",), ("json",), REMADE)
OWN = sorted(Path(__file__).parents[1].rglob("test_*.py"))[::12]


def seen(lines: str, **names: Any) -> Any:
    """What a witness has seen of a test of these lines, in which these names are known, whether or not it passes."""
    source = "def test_a():\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    witness = Witness(set(), Names("/nowhere", (), {}), FUNCTIONS, CALLS)
    space = {NAME: witness, "raises": pytest.raises, "approx": pytest.approx, **names}
    exec(compile(watched(source, next(functions(ast.parse(source)))), "test_a.py", "exec"), space)
    witness.names.watch(space["test_a"])
    CALLS.kept = True
    with contextlib.suppress(AssertionError):
        space["test_a"]()
    witness.over()
    CALLS.kept = False
    return witness


@pytest.fixture(autouse=True, scope="module")
def mocks() -> Iterator[None]:
    """After these tests mocks are as they were."""
    yield
    for (kind, name), real in REAL.items():
        setattr(kind, name, real)


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


@pytest.mark.parametrize("value", [[1, "a"], (1, 2), Pair(1, 2), {1, 2}, {"a": [1]}, "text", b"text", None], ids=repr)
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
    lies = seen(line, value=value, told=Mock(), case=case).lies
    assert [lie.startswith("test_a:") for lie in lies if not lie.startswith("claims")] == [True]


class Triangle:
    """Is equal to every triangular number, and none."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and (8 * other + 1) ** 0.5 % 1 == 0

    __hash__ = object.__hash__


@pytest.mark.parametrize("value", [Triangle(), ANY, pytest.approx(6, abs=0.4)], ids=["own", "any", "approx"])
def test_an_object_that_is_equal_to_a_plain_value_and_cannot_be_had_as_one_is_hollow(value: Any) -> None:
    assert seen("assert value == 6", value=value).sides == {"plain": {"test_a:2, right"}, "hollow": {"test_a:2, left"}}
    assert seen("assert [1, value] == [1, 6]", value=value).sides["hollow"] == {"test_a:2, left"}


HAD = [6, 6.0, True, Decimal(6), Fraction(6), UserString("6"), UserList([6]), UserDict(a=6), frozenset({6}), {6: 1}.keys()]


@pytest.mark.parametrize("value", HAD, ids=lambda value: type(value).__name__)
def test_what_can_be_had_as_a_plain_value_is_none(value: Any) -> None:
    other = next(one for one in (6, True, "6", [6], {"a": 6}, {6}) if value == one)
    assert not seen("assert value == other\nassert other == value", value=value, other=other).sides["hollow"]


class Next(int):
    """Is equal to the next number."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and int(self) + 1 == other

    __hash__ = int.__hash__


class Area:
    """Is what a careful author writes for a number with a unit."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, Area) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __float__(self) -> float:
        return float(self.value)


@pytest.mark.parametrize(
    "value", [Area(3), [Area(3)], Length(3), Decimal(3), Pair(3, Length(4)), {"a": Area(3)}], ids=lambda value: type(value).__name__
)
def test_a_value_that_agrees_with_itself_is_no_lie(value: Any) -> None:
    plain = {"Area": 3, "Length": 3, "Decimal": 3, "Pair": (3, 4), "list": [3], "dict": {"a": 3}}[type(value).__name__]
    assert not seen("assert value == plain\nassert plain == value", value=value, plain=plain).lies


@pytest.mark.parametrize(("value", "plain"), [(Next(2), 3), ([1, Next(2)], [1, 3]), ({"a": (Next(2),)}, {"a": (3,)})], ids=str)
def test_a_value_that_is_another_one_without_its_class_is_a_lie(value: Any, plain: Any) -> None:
    assert seen("assert value == plain", value=value, plain=plain).lies == {"claims what it is not in test_a:2"}


def shorter(values: list[int]) -> int:
    values.pop()
    return len(values)


def emptied(values: dict[str, int]) -> dict[str, int]:
    values.clear()
    return {}


class Shifted(int):
    """Lies one further up than it is, in each comparison."""

    __lt__ = lambda self, other: int(self) + 1 < other  # noqa: E731
    __gt__ = lambda self, other: int(self) + 1 > other  # noqa: E731


class Holding(str):
    """Says that it has another part than it has."""

    def __contains__(self, part: object) -> bool:
        return part == "b"


def test_each_comparison_is_made_with_what_is_plain_too() -> None:
    assert "claims what it is not in test_a:2" in seen("assert 2 < value", value=Shifted(2)).lies
    assert "claims what it is not in test_a:2" in seen("assert 'b' in value", value=Holding("a")).lies
    assert "claims what it is not in test_a:3" in seen("mock(value)\nmock.assert_called_with(3)", value=Next(2), mock=Mock()).lies
    assert not seen("assert value in iter([value])\nassert value in {3: 1}\nassert 2 < value < 4", value=Length(3)).lies


def test_what_the_test_compares_with_is_kept_as_it_was() -> None:
    lies = {"edits what the test compares with in test_a:3"}
    assert seen("values = [1, 2]\nassert told(values) == len(values)", told=shorter).lies == lies
    assert seen("values = {'a': 1}\nassert told(values) == values", told=emptied).lies == lies
    assert seen("values = [1, 2]\ncase.assertEqual(told(values), len(values))", told=shorter, case=Mock(spec=["assertEqual"])).lies == lies


class Backwards(int):
    """Is sorted the other way round."""

    def __lt__(self, other: int) -> bool:
        return int(self) > int(other)


def test_what_is_put_into_a_value_or_put_back_when_it_is_compared_is_seen_too() -> None:
    def rigged(values: list[int]) -> int:
        values[:] = map(Backwards, values)
        return max(map(int, values))

    def undone(values: list[int]) -> Any:
        class Undone(int):
            def __eq__(self, other: object) -> bool:
                values[:] = [1, 2]
                return int(self) == other

        values.pop()
        return Undone(len(values))

    lies = seen("values = [1, 2]\nassert told(values) == sorted(values)[0]", told=rigged).lies
    assert "edits what the test compares with in test_a:3" in lies
    lies = seen("values = [1, 2]\nassert told(values) == len(values)", told=undone).lies
    assert "edits what the test compares with in test_a:3" in lies


def test_a_name_stands_for_what_it_stood_for_before_any_test() -> None:
    space: dict[str, Any] = {"helper": len, **globals()}
    exec("def test_a(): helper()", space)
    names = Names("/nowhere", (), {id(space): {**space}})
    space["helper"] = max
    names.watch(space["test_a"])
    assert [*names.others(space["test_a"].__code__)] == ["helper"]


def test_what_is_changed_in_place_without_another_expectation_is_no_lie() -> None:
    lines = "values = [2, 1]\nassert told(values) == sorted(values)[0]\nvalues.append(told(values))\nassert told(values) == 1"
    assert not seen(lines, told=lambda values: values.sort() or values[0]).lies


def test_a_function_that_is_another_one_for_one_call_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(values: list[int]) -> list[int]:
        monkeypatch.undo()
        return [*values]

    def told() -> None:
        monkeypatch.setattr("builtins.sorted", once)

    assert seen("told()\nassert sorted([1, 2]) == [1, 2]", told=told).lies == {"replaces sorted"}


def test_what_a_function_of_the_test_comes_of_is_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    def once(self: object, value: object) -> str:
        monkeypatch.undo()
        return "[]"

    def told() -> None:
        monkeypatch.setattr("json.encoder.JSONEncoder.encode", once)

    assert seen("told()\nassert json.dumps([1]) == '[]'", told=told, json=json).lies == {
        "replaces json.encoder.JSONEncoder.encode by once of grading/test_watching.py"
    }


def test_how_close_numbers_should_be_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{type(pytest.approx(1)).__module__}.ApproxScalar.DEFAULT_RELATIVE_TOLERANCE"

    def told() -> None:
        monkeypatch.setattr(type(pytest.approx(1)), "DEFAULT_RELATIVE_TOLERANCE", 0.1)

    lies = seen("told()\nassert 1.01 == approx(1)", told=told).lies
    monkeypatch.undo()
    assert lies == {f"replaces {name}"}


def test_what_is_added_to_a_class_and_other_defaults_of_a_function_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = Functions(("json",), ("json",), REMADE)
    assert not functions.replaced()
    monkeypatch.setattr("json.encoder.JSONEncoder.indent", property(lambda self: 4), raising=False)
    monkeypatch.setattr("json.decoder.sorted", sorted, raising=False)
    monkeypatch.setattr("json.dumps.__kwdefaults__", {**(json.dumps.__kwdefaults__ or {}), "indent": 4})
    names = [name.partition(" by ")[0] for name in functions.replaced()]
    assert names == ["json.decoder.sorted", "json.dumps", "json.encoder.JSONEncoder.indent"]


def test_functions_that_are_as_they_were_again_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = Functions(("json",), ("json",), REMADE)
    with monkeypatch.context() as changed:
        changed.setattr("json.dumps.__defaults__", (1,))
        changed.setattr("json.encoder.JSONEncoder.encode", json.dumps)
        changed.delattr("json.encoder.JSONEncoder.default")
        assert {name.partition(" by ")[0] for name in functions.replaced()} == {
            "json.dumps",
            "json.encoder.JSONEncoder.default",
            "json.encoder.JSONEncoder.encode",
        }
    assert not functions.replaced()


def test_what_is_done_to_other_functions_is_no_matter() -> None:
    def own(found: int = 1) -> int:
        return found

    functions = Functions(("json",), ("json",), REMADE)
    own.__defaults__ = (2,)
    own.__code__ = own.__code__.replace(co_name="other")
    del own.__defaults__
    assert not functions.replaced()


def test_what_a_class_notes_as_it_goes_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = Functions(("json",), ("json",), REMADE)
    monkeypatch.setattr("json.encoder.JSONEncoder.warned", True, raising=False)
    assert not functions.replaced()


def test_a_helper_says_which_file_it_comes_from() -> None:
    space: dict[str, Any] = {}
    exec(compile("def same(a, b): pass\ndef other(a, b): pass", "/testbed/tests/helper.py", "exec"), space)
    exec(compile("def other(a, b): pass\ndef test_a(): same(other(1), 2)", "/testbed/shop/cart.py", "exec"), space)
    names = Names("/testbed", ["/testbed/tests"], {})
    assert names.sources([space["test_a"]]) == ["same of tests/helper.py"]


def test_the_code_and_the_defaults_of_a_helper_are_what_they_were() -> None:
    def helper(found: int = 1) -> int:
        return found

    def told() -> None:
        helper.__defaults__ = (2,)

    assert seen("told()\nassert helper() == 2", told=told, helper=helper).lies == {"replaces helper"}


@pytest.mark.parametrize("mock", [Mock, MagicMock, lambda: create_autospec(lambda number: None)], ids=["mock", "magic", "function"])
@pytest.mark.parametrize("line", ["mock.assert_called_with(3)", "assert mock.call_count == 1", "assert mock.call_args_list == [call(3)]"])
def test_what_a_mock_says_of_calls_that_there_were_is_no_lie(line: str, mock: Any) -> None:
    assert not seen(f"mock(3)\n{line}", mock=mock(), call=call).lies


@pytest.mark.parametrize(
    "lie",
    [
        lambda mock: setattr(mock, "assert_called_once_with", lambda number: Mock.assert_called_once_with(mock, number + 1)),
        lambda mock: setattr(type(mock), "_call_matcher", lambda self, call: call),
        lambda mock: setattr(mock, "call_args", call(3)),
        lambda mock: mock.call_args_list.__setitem__(0, call(3)),
        lambda mock: setattr(mock, "call_count", 2),
        lambda mock: mock.mock_calls.append(call(4)),
        lambda mock: mock.reset_mock() or mock(3),
        lambda mock: mock._increment_mock_call(3),
    ],
)
def test_a_mock_that_does_not_say_what_it_was_told_is_a_lie(lie: Any) -> None:
    lines = "mock(4)\nlie(mock)\nmock.assert_called_once_with(3)"
    assert "belies what was called in test_a:4" in seen(lines, mock=Mock(), lie=lie).lies


def test_a_mock_that_the_submission_makes_is_none_that_a_test_can_mean() -> None:
    owner = Mock()

    def told() -> None:
        owner.send = Mock()
        owner.send(3)

    assert seen("told()\nowner.send.assert_called_once_with(3)", told=told, owner=owner).lies == {"belies what was called in test_a:3"}
    lines = "owner = Mock()\nowner.send(3)\nowner.send.assert_called_once_with(3)\nassert owner.mock_calls == [call.send(3)]"
    assert not seen(lines, Mock=Mock, call=call).lies


def test_what_is_no_mock_and_is_asked_like_one_is_told() -> None:
    other = type("Other", (), {"assert_called_once_with": lambda self, number: None})()
    lies = seen("other.assert_called_once_with(3)\nassert other", other=other).lies
    assert "belies what was called in test_a:2" in lies


def test_a_mock_that_is_called_when_the_test_is_over_is_told() -> None:
    mock = Mock()
    timer = threading.Timer(0.05, mock, (1,))
    assert seen("mock.assert_not_called()\ntimer.start()", mock=mock, timer=timer).lies == {"acts on a mock when the test is over"}


def test_a_mock_that_a_signal_calls_is_told() -> None:
    mock = Mock()

    def told() -> None:
        signal.signal(signal.SIGALRM, lambda *_: mock(1))
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    assert seen("told()\nmock.assert_not_called()", mock=mock, told=told).lies == {"acts on a mock when the test is over"}


def test_an_exception_of_two_kinds_is_no_lie() -> None:
    assert not seen("with raises(KeyError) as found: value()\nassert found.type", value=raising(Missing)).lies


def test_the_runs_of_a_test_and_those_that_come_to_their_end_are_counted() -> None:
    assert seen("assert True").runs == [1, 1]
    assert seen("if True:\n    return\nassert False").runs == [1, 0]


def test_a_test_that_what_it_tests_runs_is_told() -> None:
    source = "def test_a():\n    assert 1 == 1\n"
    witness = Witness({__file__}, Names("/nowhere", (), {}), Functions((), (), REMADE), None)
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


@pytest.mark.parametrize(
    "value",
    [
        0,
        1.5,
        "text",
        b"text",
        True,
        [3, 1, 2],
        (1, "a"),
        {1},
        {"major": 0, "minor": 10, "patch": 4},
        {"a": [0, {"b": 1}]},
        [[1], [2]],
        pytest.approx(2),
    ],
    ids=str,
)
def test_what_a_value_could_claim_to_be_is_the_same_each_time(value: Any) -> None:
    """Else an honest value that is equal to one of them would be told of in one run and not in the solution's."""
    found = {tuple(sorted(map(repr, VALUES.others(value)))) for _ in range(40)}
    assert len(found) == 1


def test_a_mock_is_asked_about_the_same_calls_each_time() -> None:
    asked: list[set[str]] = []
    for _ in range(20):
        seen_calls: set[str] = set()

        class Record:
            call_args: Any = ((), {})

            def assert_called_with(self, *given: Any, calls: set[str] = seen_calls) -> None:
                calls.add(repr(given))

        seen("record.assert_called_with(1, 'two', [3, 4], {5: 6})", record=Record())
        asked.append(seen_calls)
    assert all(one == asked[0] for one in asked)
    assert 10 < len(asked[0]) < 15
