"""What the functions of tests use by name, and which of it is another thing than it was.

def test_a(): assert f([1]) == sorted([1])   ->   f, and sorted: in the test's module, and in Python's own
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

NAME = "__patchgrad__"  # what a test's text calls its witness
_NONE = object()
_FUNCTIONS = types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType
_ACTS = type, classmethod, staticmethod, property, *_FUNCTIONS


class _Used(NamedTuple):
    """What a function uses: names, each by where it is held and what it stood for, and functions with what they were made of."""

    held: list[tuple[str, Mapping[str, Any], str, Any]]
    functions: list[tuple[str, types.FunctionType, tuple[Any, ...]]]


class Names:
    """What functions use, as it is when they are given to `watch`; `others` are those names that stand for something else.

    What was in the functions' module at `first`, by the number of its dictionary, is what its names are to stand for. What belongs to the
    code under test, which lies in the folder and in none of these places, may change as it likes.
    """

    def __init__(self, folder: str, places: Iterable[str], first: Mapping[int, Mapping[str, Any]]) -> None:
        self._folder, self._places = os.path.join(folder, ""), [os.path.abspath(place) for place in places]
        self._first = first
        self._used: dict[int, tuple[types.CodeType, _Used]] = {}

    def watch(self, function: types.FunctionType) -> None:
        """From here on, what this function uses is to be what it is."""
        space, used = function.__globals__, _Used([], [])
        codes = [*_codes(function.__code__)]
        names = {name for code in codes for name in code.co_names} - {NAME}
        for name in sorted(names):
            self._hold(used, name, space, name)
            self._hold(used, name, vars(builtins), name)
        for name in sorted(names & space.keys()):
            value = space[name]
            module = isinstance(value, types.ModuleType)
            if (module or isinstance(value, (type, types.FunctionType))) and not self._tested(
                value.__name__ if module else value.__module__
            ):
                self._of(used, name, value, names)
        self._used.update((id(code), (code, used)) for code in codes)

    def others(self, code: types.CodeType) -> Iterator[str]:
        """The names that a function of this code uses, and that stand for another thing."""
        _, used = self._used.get(id(code), (code, _Used([], [])))
        for name, space, key, value in used.held:
            if space.get(key, _NONE) is not value:
                yield name
        for name, function, made in used.functions:
            if any(one is not before for one, before in zip(_made_of(function), made)):  # noqa: B905  # since Python 3.10
                yield name

    def sources(self, functions: Iterable[types.FunctionType]) -> list[str]:
        """Which functions of which files of tests these use: `["same of tests/helper.py"]`."""
        used = {
            (name, os.path.abspath(value.__code__.co_filename))
            for function in functions
            for code in _codes(function.__code__)
            for name in code.co_names
            if isinstance(value := function.__globals__.get(name), types.FunctionType)
        }
        return sorted(f"{name} of {os.path.relpath(file, self._folder)}" for name, file in used if self._placed(file))

    def _placed(self, file: str) -> bool:
        return any(file == place or file.startswith(place + os.sep) for place in self._places)

    def _of(self, used: _Used, name: str, value: Any, names: set[str]) -> None:
        """Hold what belongs to a function, class or module by this name, for a function that uses these names."""
        if isinstance(value, types.FunctionType):
            used.functions.append((name, value, _made_of(value)))
        else:
            for key, one in list(vars(value).items()):
                if isinstance(one, _ACTS) and (key in names or isinstance(value, type)):
                    self._hold(used, f"{name}.{key}", vars(value), key)

    def _hold(self, used: _Used, name: str, space: Mapping[str, Any], key: str) -> None:
        used.held.append((name, space, key, self._first.get(id(space), space).get(key, _NONE)))

    def _tested(self, module: Any) -> bool:
        """Is a module of this name one of the code under test?"""
        file = getattr(sys.modules.get(module), "__file__", None) if isinstance(module, str) else None
        path = os.path.abspath(file) if isinstance(file, str) else ""
        return path.startswith(self._folder) and not self._placed(path)


def _made_of(function: types.FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of those inside of it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _codes(part)
