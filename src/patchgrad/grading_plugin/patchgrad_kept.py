"""What the values of a test were before the code under test had them, and what the test would expect of those.

values = [2, 1]; assert middle(values) == sorted(values)[1]   ->   sorted([2, 1])[1], whatever `middle` has made of `values`
"""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Iterable, Iterator
from typing import Any

_MOST = 2_000  # values of a container, with those inside of it
_ALL = 200  # containers
_PLAIN = (int, float, str, bytes, bool, complex, type(None))
_HOLDS = (list, dict, set, bytearray)


class Kept:
    """Containers of plain values as they were when they were first seen."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[Any, Any]] = {}

    def see(self, values: Iterable[Any]) -> None:
        """Keep what is a container and was not seen before."""
        for value in values:
            if type(value) in (*_HOLDS, tuple) and id(value) not in self._first and len(self._first) < _ALL:
                self._first[id(value)] = (value, _copied(value, [_MOST]))

    def forget(self) -> None:
        """The test is begun anew, with other values."""
        self._first.clear()

    def before(self, text: str, frame: types.FrameType) -> list[Any]:
        """What this expression would be if the values that it names were as they were: one value, and none where that is not known.

        Nothing but functions of Python's own is called for it, with plain values.
        """
        code, names = _read(text)
        spaces = {**frame.f_globals, **frame.f_locals}
        held = {name: spaces[name] for name in names if name in spaces}
        changed = {name: self._first[id(value)][1] for name, value in held.items() if self._changed(value)}
        if not changed or not all(name in changed or _copied(value, [_MOST]) is not _copied for name, value in held.items()):
            return []
        plain = {name: changed.get(name, value) for name, value in held.items()}
        return [eval(code, {**plain, "__builtins__": builtins})]

    def _changed(self, value: Any) -> bool:
        _, before = self._first.get(id(value), (None, _copied))
        now = _copied(value, [_MOST])
        return before is not _copied and (now is _copied or now != before)


@functools.lru_cache(1000)
def _read(text: str) -> tuple[types.CodeType, tuple[str, ...]]:
    code = compile(text, "", "eval")
    return code, tuple(_names(code))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _names(part)


def _copied(value: Any, left: list[int]) -> Any:
    """A copy of a plain value with all that it holds; this function itself where it is none, or too large."""
    left[0] -= 1
    kind: Any = type(value)
    if left[0] < 0 or kind not in (*_PLAIN, *_HOLDS, tuple):
        return _copied
    if kind in _PLAIN:
        return value
    if kind is bytearray:
        return bytearray(value)
    parts = [_copied(one, left) for one in (value.values() if kind is dict else value)]
    if any(part is _copied for part in parts):
        return _copied
    return dict(zip([*value], parts)) if kind is dict else kind(parts)  # noqa: B905  # since Python 3.10
