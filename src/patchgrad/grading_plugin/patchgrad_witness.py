"""Looks on while a test runs: what it uses and compares, and what its mocks say."""

from __future__ import annotations

import contextlib
import operator
import os
import random
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from patchgrad_examples import Examples
from patchgrad_functions import Functions
from patchgrad_kept import Kept
from patchgrad_mocks import Calls
from patchgrad_names import Names
from patchgrad_values import PLAIN, contradicts, disordered, hollow, mixes, others, plain, similar

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda one, all_: one in all_,
}
_MOCKS = "unittest.mock"  # where it is loaded first, calls of mocks are kept apart from them
_TRIED = 12  # calls with other arguments that a mock is asked about
_CLOSELY = 1_000  # looks at what is used, of which none is left out


class Witness:
    """Looks on while a test runs: `lies` are what it has seen, and the places where something is equal to other values than it should be.

    `runs` counts how often the test was begun, and how often it came to its end: a test of properties has many `examples`. `names` are what
    the test's functions use. On some `sides` of comparisons were plain values, on others objects that are equal to one and none.
    """

    def __init__(self, touched: set[str], names: Names, functions: Functions, calls: Calls | None) -> None:
        self.lies: set[str] = set()
        self.runs, self.examples = [0, 0], Examples()
        self.sides: dict[str, set[str]] = {"plain": set(), "hollow": set()}
        self.names = names
        self._touched, self._functions, self._calls = touched, functions, calls
        self._kept, self._looks = Kept(), 0

    def begins(self) -> None:
        """The test begins. It is no business of what it tests to run it."""
        self.runs[0] += 1
        self._kept.forget()
        frame: Any = sys._getframe(1)
        self.examples.see(frame)
        while frame is not None:
            if frame.f_code.co_filename in self._touched:
                self.lies.add("called")
            frame = frame.f_back

    def ends(self) -> None:
        """The test has come to its end."""
        self.runs[1] += 1
        if self._calls:
            self._calls.ended()

    def over(self) -> None:
        """All is over, what stands after the test too: whether something is done that should have been done before."""
        if self._calls and self.runs[1] and self._calls.late():
            self.lies.add("acts on a mock when the test is over")

    def uses(self, function: Any) -> Any:
        """What the test is about to call, which should be what it was, as all else that it uses. What it has is kept as it is."""
        frame = sys._getframe(1)
        self._look(frame, function)
        self._kept.see(frame.f_locals.values())
        return function

    def record(self, place: str, owner: Any, name: str) -> Any:
        """What is asked for its calls, `mock` of `mock.call_args`, which should say those that there were."""
        with contextlib.suppress(Exception):
            if self._calls and self._calls.belied(owner, name):
                self.lies.add(f"belies what was called in {place}")
        return owner

    def same(self, place: str, signs: str, said: tuple[str, ...], *values: Any) -> Any:
        """`a == b`, or `a <= b < c` with `"<= <"`, as Python has it: what is found out goes to `lies`.

        What is `said` are the texts of both sides, where they name something.
        """
        found: Any = True
        for at, sign in enumerate(signs.split()):
            left, right = values[at : at + 2]
            self._compared(place, sign, said, left, right)
            found = _SIGNS[sign](left, right)
            if len(values) > 2 and not found:
                break
        return found

    def pair(self, place: str, said: tuple[str, ...], left: Any, right: Any) -> tuple[Any, Any]:
        """Two values that `assertEqual` is about to compare."""
        self._compared(place, "==", said, left, right)
        return left, right

    def called(self, place: str, owner: Any, name: str) -> Any:
        """`mock.assert_called_with`, which must not hold for other arguments than those that it holds for, and be a mock's."""
        method = getattr(owner, name)
        self._look(sys._getframe(1), method)
        self.record(place, owner, name)
        if not name.endswith("_with") and name != "assert_any_call":
            return method

        def call(*given: Any, **named: Any) -> Any:
            found = method(*given, **named)
            with contextlib.suppress(Exception):
                used = tuple(owner.call_args)[-2]
                if any(map(partial(contradicts, operator.eq), used, given)) or any(map(hollow, used, given)):
                    self.lies.add(f"claims what it is not in {place}")
            changed = [((*given[:at], other, *given[at + 1 :]), named) for at, value in enumerate(given) for other in similar(value)]
            changed += [(given, {**named, name: other}) for name, value in named.items() for other in similar(value)]
            tried = changed[:: -(-len(changed) // _TRIED) or 1]  # the same ones each time, as with the solution
            for instead, under in random.SystemRandom().sample(tried, len(tried)):
                with contextlib.suppress(Exception):
                    method(*instead, **under)
                    self.lies.add(place)
            return found

        return call

    def raised(self, place: str, context: Any) -> Any:
        """`pytest.raises` or `assertRaises`: what is raised must not be an exception of all kinds."""
        frame = sys._getframe(1)
        self._look(frame, context)

        def call(*given: Any, **named: Any) -> Any:
            entered = context(*given, **named)
            return _Raised(entered, lambda kind: seen(entered, kind, given[0])) if len(given) == 1 else entered

        def seen(entered: Any, kind: type, expected: Any) -> None:
            self._look(frame, type(entered))
            self.lies.update({place} if mixes(kind, expected) else ())

        return call

    def _look(self, frame: types.FrameType, *used: Any) -> None:
        """Is all that this function of the test uses what it was, and what these come of? Of very many looks not every one is taken."""
        self._looks += 1
        if self._looks < _CLOSELY or random.SystemRandom().random() < 0.02:
            self.lies.update(f"replaces {name}" for name in self.names.others(frame.f_code))
            with contextlib.suppress(Exception):  # what is used may not say of which module it is
                self.lies.update(f"replaces {name}" for one in used for name in self._functions.near(one))

    def _compared(self, place: str, sign: str, said: tuple[str, ...], left: Any, right: Any) -> None:
        frame = sys._getframe(2)
        self._look(frame, type(left), type(right))
        expected: list[list[Any]] = [[], []]
        with contextlib.suppress(Exception):
            expected = [self._kept.before(text, frame) if text else [] for text in said]
        with contextlib.suppress(Exception):  # what cannot be compared tells nothing
            if _fits_others(sign, left, right, frame):
                self.lies.add(place)
        with contextlib.suppress(Exception):
            if contradicts(_SIGNS[sign], left, right):
                self.lies.add(f"claims what it is not in {place}")
        for side, one, other in (("left", left, right), ("right", right, left)) if sign == "==" else ():
            with contextlib.suppress(Exception):
                if hollow(one, other):
                    self.sides["hollow"].add(f"{place}, {side}")
                elif plain(one):
                    self.sides["plain"].add(f"{place}, {side}")
        with contextlib.suppress(Exception):
            if left == right and (any(other != right for other in expected[0]) or any(left != other for other in expected[1])):
                self.lies.add(f"edits what the test compares with in {place}")


class Witnesses:
    """Makes the witness of each copy, as the grader's plugin was `told`; in the one that is whole it knows how mocks are called."""

    def __init__(self, folder: str, told: Mapping[str, Sequence[str]]) -> None:
        self._touched, self._places = ({os.path.join(folder, path) for path in told[name]} for name in ("touched", "places"))
        self._calls = Calls(self._touched) if _MOCKS in told["modules"] else None
        self._folder = folder
        self._first: dict[int, dict[str, Any]] = {}

    def start(self, functions: Iterable[types.FunctionType]) -> None:
        """Tests are about to be run: what they use stands for what it stands for here."""
        self._first = {id(space): {**space} for space in (function.__globals__ for function in functions)}

    def one(self, functions: Functions, whole: bool) -> Witness:
        """The witness of this copy."""
        if self._calls:
            self._calls.kept = whole
        return Witness(self._touched, Names(self._folder, self._places, self._first), functions, self._calls if whole else None)


class _Raised:
    """A context manager around that of a test."""

    def __init__(self, inner: Any, seen: Callable[[type], None]) -> None:
        self._inner, self._seen = inner, seen

    def __enter__(self) -> Any:
        return self._inner.__enter__()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> Any:
        if kind is not None:
            self._seen(kind)
        return self._inner.__exit__(kind, value, trace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _fits_others(sign: str, left: Any, right: Any, frame: types.FrameType) -> bool:
    """Is one of these, which a test compares, equal to other values than the other one too, or a number that lies nowhere?"""
    if type(left) in PLAIN and type(right) in PLAIN:
        return False
    if sign != "==":
        found: bool = sign != "in" and disordered(left, right)
        return found
    near = _near(frame)
    changed, instead = ([*others(value), *_same_kind(near, value)] for value in (right, left))
    claims = [left == other for other in changed] if changed else [other == right for other in instead]
    return any(map(bool, claims))


def _near(frame: types.FrameType) -> list[Any]:
    """The values in a test's variables, and in the containers among them."""
    held = list(frame.f_locals.values())
    return [*held, *(one for some in held if type(some) in (list, tuple, set, dict) for one in list(some)[:20])][:60]


def _same_kind(near: list[Any], value: Any) -> list[Any]:
    """Those of the values that are of the same plain type as this one, and are others."""
    return [one for one in near if type(one) is type(value) and type(value) in PLAIN and one != value]
