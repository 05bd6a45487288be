"""What a test of properties was given with the solution, and whether it holds for that with an attempt as well.

    @given(integers())                  with the solution: 0, -7, 812, ...     ->   told() == ["...", "...", "..."]
    def test_a(number): ...             with an attempt:   0, 1, 0, ...        ->   missed(["...", "...", "..."]) is True

So code that sees to it that only easy examples are drawn has to pass the others all the same.
"""

from __future__ import annotations

import base64
import contextlib
import marshal
import random
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LEAST, _MOST = 10, 30  # of a test that has so many examples, that many are kept
_SIZE = 10_000  # bytes of an example
_NEUTRAL = ("hypothesis", "_pytest")  # who raises what says nothing of the test: an example that is passed by, a test that is skipped


class Examples:
    """The examples of one test. Arguments that are not plain, such as `self` and fixtures, are those that the test was called with last."""

    def __init__(self) -> None:
        self._code: types.CodeType | None = None
        self._other: dict[str, Any] = {}
        self._kept: list[bytes] = []
        self._count, self._plain, self._over = 0, True, False

    def see(self, frame: types.FrameType) -> None:
        """The test begins in this frame, which has nothing but its arguments."""
        if self._over:
            return
        self._count += 1
        plain, other = _parted(frame.f_locals)
        if self._count > 1 and (frame.f_code is not self._code or _numbers(other) != _numbers(self._other)):
            self._plain = False  # an example that cannot be given again
        self._code, self._other = frame.f_code, other
        place = len(self._kept) if self._count <= _MOST else random.SystemRandom().randrange(self._count)
        with contextlib.suppress(ValueError):
            if place < _MOST and len(text := marshal.dumps(plain)) < _SIZE:
                self._kept[place:] = [text, *self._kept[place + 1 :]]

    def told(self, functions: Iterable[types.FunctionType]) -> list[str]:
        """Those that hold again when they are given to the test directly, which is one of these functions; none of a test with few."""
        kept = self._kept if self._plain and self._count >= _LEAST else []
        return [base64.b64encode(text).decode() for text in kept if self._holds(functions, marshal.loads(text))]

    def missed(self, functions: Iterable[types.FunctionType], texts: Sequence[str]) -> bool:
        """Is there one that was told of the solution and does not hold here?"""
        return self._plain and not all(self._holds(functions, marshal.loads(base64.b64decode(text))) for text in texts)

    def _holds(self, functions: Iterable[types.FunctionType], arguments: Mapping[str, Any]) -> bool:
        self._over = True
        test = next((function for function in functions if function.__code__ is self._code), None)
        if test is None:
            return True
        try:
            test(**{**self._other, **arguments})
        except BaseException as error:
            return type(error).__module__.partition(".")[0] in _NEUTRAL
        return True


def _parted(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that are plain values all through, and the others."""
    plain = {name: value for name, value in arguments.items() if _plain(value)}
    return plain, {name: value for name, value in arguments.items() if name not in plain}


def _plain(value: Any) -> bool:
    with contextlib.suppress(ValueError):
        return len(marshal.dumps(value)) < _SIZE
    return False


def _numbers(objects: Mapping[str, Any]) -> dict[str, int]:
    return {name: id(value) for name, value in objects.items()}
