"""What the functions of tests use by name, and which of it is another thing than it was.

def test_a(): assert f([1]) == sorted([1])   ->   f, and sorted: in the test's module, and in Python's own
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

NAME = "__patchgrad__"  # what a test's text calls its witness
_NONE = object()
_FUNCTIONS = types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType
_ACTS = type, classmethod, staticmethod, property, *_FUNCTIONS


class Names:
    """What functions use, as it is when they are given to `watch`; `others()` are those names that stand for something else.

    What was in the functions' module at `first`, by the number of its dictionary, is what its names are to stand for. What belongs to the
    code under test, which lies in the folder and in none of these places, may change as it likes.
    """

    def __init__(self, folder: str, places: Iterable[str], first: Mapping[int, Mapping[str, Any]]) -> None:
        self._folder, self._places = os.path.join(folder, ""), [os.path.abspath(place) for place in places]
        self._first = first
        self._held: dict[tuple[int, str], tuple[str, Mapping[str, Any], str, Any]] = {}
        self._codes: dict[int, tuple[str, types.FunctionType, tuple[Any, ...]]] = {}

    def watch(self, function: types.FunctionType) -> None:
        """From here on, what this function uses is to be what it is."""
        space, names = function.__globals__, {*_names(function.__code__)} - {NAME}
        for name in sorted(names):
            self._hold(name, space, name)
            self._hold(name, vars(builtins), name)
        for name in sorted(names & space.keys()):
            value = space[name]
            module = isinstance(value, types.ModuleType)
            if (module or isinstance(value, (type, types.FunctionType))) and not self._tested(
                value.__name__ if module else value.__module__
            ):
                self._of(name, value, names)

    def _of(self, name: str, value: Any, names: set[str]) -> None:
        """Hold what belongs to a function, class or module by this name, for functions that use these names."""
        if isinstance(value, types.FunctionType):
            self._codes.setdefault(id(value), (name, value, _made_of(value)))
        else:
            for key, one in list(vars(value).items()):
                if isinstance(one, _ACTS) and (key in names or isinstance(value, type)):
                    self._hold(f"{name}.{key}", vars(value), key)

    def others(self) -> Iterator[str]:
        """The names of what is another thing."""
        for name, space, key, value in self._held.values():
            if space.get(key, _NONE) is not value:
                yield name
        for name, function, made in self._codes.values():
            if any(one is not before for one, before in zip(_made_of(function), made)):  # noqa: B905  # since Python 3.10
                yield name

    def _hold(self, name: str, space: Mapping[str, Any], key: str) -> None:
        self._held.setdefault(
            (id(space), key) if isinstance(space, dict) else (0, name),
            (name, space, key, self._first.get(id(space), space).get(key, _NONE)),
        )

    def _tested(self, module: Any) -> bool:
        """Is a module of this name one of the code under test?"""
        file = getattr(sys.modules.get(module), "__file__", None) if isinstance(module, str) else None
        path = os.path.abspath(file) if isinstance(file, str) else ""
        return path.startswith(self._folder) and not any(path == place or path.startswith(place + os.sep) for place in self._places)


def _made_of(function: types.FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _names(code: types.CodeType) -> Iterator[str]:
    """The names in a function and in those inside of it."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _names(part)
