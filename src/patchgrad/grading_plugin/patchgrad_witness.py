"""Looks on while a test compares: whether what is equal to what is expected is equal to other values as well."""

from __future__ import annotations

import contextlib
import operator
import random
import sys
import types
from collections.abc import Callable
from typing import Any

NAME = "__patchgrad__"  # what a test's text calls its witness
_MOST = 2_000  # values of a container that are looked at
_SIGNS = {"==": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_PLAIN = (int, float, str, bytes, bool, complex, type(None))


class Witness:
    """Looks on while a test compares: `lies` are the places where something is equal to other values than it should be.

    `runs` counts how often the test was begun, and how often it came to its end: a test of properties has many examples.
    """

    def __init__(self, touched: set[str]) -> None:
        self.lies: set[str] = set()
        self.runs = [0, 0]
        self._touched = touched

    def begins(self) -> None:
        """The test begins. It is no business of what it tests to run it."""
        self.runs[0] += 1
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename in self._touched:
                self.lies.add("called")
            frame = frame.f_back

    def ends(self) -> None:
        """The test has come to its end."""
        self.runs[1] += 1

    def same(self, place: str, signs: str, *values: Any) -> Any:
        """`a == b`, or `a <= b < c` with `"<= <"`, as Python has it: what is found out goes to `lies`."""
        found: Any = True
        for at, sign in enumerate(signs.split()):
            left, right = values[at : at + 2]
            self._probe(place, sign, left, right)
            found = _SIGNS[sign](left, right)
            if len(values) > 2 and not found:
                break
        return found

    def pair(self, place: str, left: Any, right: Any) -> tuple[Any, Any]:
        """Two values that `assertEqual` is about to compare."""
        self._probe(place, "==", left, right)
        return left, right

    def called(self, place: str, method: Any) -> Any:
        """`mock.assert_called_with`, which must not hold for other arguments than those that it holds for."""

        def call(*given: Any, **named: Any) -> Any:
            found = method(*given, **named)
            others = [((*given[:at], other, *given[at + 1 :]), named) for at, value in enumerate(given) for other in _others(value)]
            others += [(given, {**named, name: other}) for name, value in named.items() for other in _others(value)]
            for changed, under in random.sample(others, min(len(others), 12)):
                with contextlib.suppress(Exception):
                    method(*changed, **under)
                    self.lies.add(place)
            return found

        return call

    def raised(self, place: str, context: Any) -> Any:
        """`pytest.raises` or `assertRaises`: what is raised must not be an exception of all kinds."""

        def call(*given: Any, **named: Any) -> Any:
            entered = context(*given, **named)
            return _Raised(entered, lambda kind: self.lies.add(place) if _mixes(kind, given[0]) else None) if len(given) < 2 else entered

        return call

    def _probe(self, place: str, sign: str, left: Any, right: Any) -> None:
        if type(left) in _PLAIN and type(right) in _PLAIN:
            return
        with contextlib.suppress(Exception):  # what cannot be compared tells nothing
            if sign != "==":
                self.lies.update({place} if _disordered(left, right) else ())
                return
            near = _near(sys._getframe(2))
            others, instead = ([*_others(value), *_same_kind(near, value)] for value in (right, left))
            claims = [left == other for other in others] if others else [other == right for other in instead]
            if any(map(bool, claims)):
                self.lies.add(place)


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


def _mixes(kind: type, expected: Any) -> bool:
    """Is this, beside what is expected, an exception of two more kinds of the built-in ones that have nothing to do with each other?"""
    own = [base for base in kind.__mro__ if base.__module__ == "builtins" and base not in (object, BaseException, Exception)]
    lowest = [base for base in own if not any(other is not base and issubclass(other, base) for other in own)]
    wanted = expected if isinstance(expected, tuple) else (expected,)
    return sum(not any(isinstance(one, type) and issubclass(base, one) for one in wanted) for base in lowest) > 1


def _disordered(left: Any, right: Any) -> bool:
    """Is one of these no number that lies somewhere, though it is compared with a number?"""
    for one, number in ((left, right), (right, left)):
        if type(number) in (int, float) and type(one) not in _PLAIN:
            steps = [number - 1000, number - 1, number - 0.5, number, number + 0.5, number + 1, number + 1000]
            try:
                sides = {step: [one < step, one == step, one > step] for step in random.sample(steps, len(steps))}
                loose = [(one <= step) != (one < step or one == step) or (one >= step) != (one > step or one == step) for step in steps]
            except Exception:  # it is compared, and no number
                return True
            if any(not isinstance(claim, bool) for claims in sides.values() for claim in claims):
                return False
            below = [claims[0] for _, claims in sorted(sides.items())]
            return below != sorted(below) or any(loose) or any(claims.count(True) != 1 for claims in sides.values())
    return False


def _near(frame: types.FrameType) -> list[Any]:
    """The values in a test's variables, and in the containers among them."""
    held = list(frame.f_locals.values())
    return [*held, *(one for some in held if type(some) in (list, tuple, set, dict) for one in list(some)[:20])][:60]


def _same_kind(near: list[Any], value: Any) -> list[Any]:
    """Those of the values that are of the same plain type as this one, and are others."""
    return [one for one in near if type(one) is type(value) and type(value) in _PLAIN and one != value]


def _others(value: Any) -> list[Any]:
    """Values that look like this one, and are others, in random order: `2` -> `[3, 1, 4, ...]`; none where it is of no plain type."""
    with contextlib.suppress(Exception):
        found = [other for other in _alike(value) if type(other) is not type(value) or other != value]
        return random.sample(found, len(found))
    return []


def _alike(value: Any) -> list[Any]:
    kind: Any = type(value)
    if kind is bool:
        return [not value]
    if kind in (int, float):
        return [value + 1, value - 1, value + 2, value - 2, value * 2, -value, value + 10, value + 0.5]
    if kind is str:
        return _texts(value)
    if kind is bytes:
        return [text.encode("latin-1") for text in _texts(value.decode("latin-1"))]
    if kind in (list, tuple) and 0 < len(value) < _MOST:
        places = {0, len(value) // 2, len(value) - 1}
        swapped = [kind([*value[:at], other, *value[at + 1 :]]) for at in places for other in _others(value[at])]
        return [*swapped[:9], value[:-1], value + value[-1:], value[::-1]]
    if kind in (set, frozenset) and 0 < len(value) < _MOST:
        one = next(iter(value))
        return [value - {one}, *((value - {one}) | {other} for other in _others(one)[:3])]
    if kind is dict and 0 < len(value) < _MOST:
        name = next(iter(value))
        return [{key: held for key, held in value.items() if key != name}, *({**value, name: other} for other in _others(value[name])[:5])]
    if kind.__name__.startswith("Approx") and hasattr(value, "expected"):
        near = {name: getattr(value, name) for name in ("rel", "abs", "nan_ok")}
        return [kind(other, **near) for other in _alike(value.expected) if other != value]
    return []


def _texts(text: str) -> list[str]:
    """`"cab"` -> `"cbb"`, `"bac"`, `"ca"` and others."""
    middle = len(text) // 2
    other = chr(ord(text[middle]) ^ 1) if text else "a"
    first = chr(ord(text[0]) ^ 3) + text[1:] if text else "b"
    changed = text[:middle] + other + text[middle + 1 :]
    return [changed, first, text[:-1], text + text[-1:], text[::-1], text.swapcase(), text[1:] + text[:1], "x" * len(text)]
