"""The functions of what tests decide with: which of them are others than they were."""

from __future__ import annotations

import builtins
import contextlib
import operator
import sys
import types
from collections.abc import Container, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

_DECIDES = {"_pytest", "pytest", "pluggy", "unittest", "hypothesis", "operator", "json", "builtins"}
_PLAIN = (int, float, str, bool)
_FUNCTIONS = types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType
_ACTS = (*_FUNCTIONS, classmethod, staticmethod, property)
_MADE = "__code__", "__defaults__", "__kwdefaults__"  # what a function is made of
_SETTING = "object.__setattr__", "object.__delattr__"  # audit events
_parts = operator.attrgetter(*_MADE)
_all, _map, _is = all, map, operator.is_  # as they are before any code under test is loaded


class Remade:
    """The functions that were given other code or defaults since `begin`, as Python's audit events tell of it.

    So no function has to be looked at that nothing was done to: a copy of a process would have to copy all of them to do so.
    """

    def __init__(self) -> None:
        self._first: dict[int, tuple[object, tuple[object, ...]]] = {}

    def begin(self) -> None:
        """What functions are made of here is what they are to be made of."""
        self._first.clear()

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit event, before what it tells of is done."""
        if event in _SETTING and arguments[1] in _MADE and type(arguments[0]) is types.FunctionType:
            self._first.setdefault(id(arguments[0]), (arguments[0], _parts(arguments[0])))

    def others(self) -> set[int]:
        """Those that are made of something else than at first, by their numbers."""
        return {number for number, (function, made) in self._first.items() if not _all(_map(_is, _parts(function), made))}

    def settle(self, function: types.FunctionType) -> None:
        """What this function is made of is what it is to be made of."""
        self._first.pop(id(function), None)


class Functions:
    """All functions of what tests decide with, as they are when this is made, after the modules were loaded."""

    def __init__(self, modules: Sequence[str], deciders: Sequence[str], remade: Remade) -> None:
        for name in modules:
            with contextlib.suppress(Exception):  # what is missing is not compared
                import_module(name)
        own = _DECIDES.union(deciders) if modules else set()
        loaded = [(title, module) for title, module in list(sys.modules.items()) if title.partition(".")[0] in own]
        self._before = {title: _Module(title, module) for title, module in loaded if isinstance(module, types.ModuleType)}
        self._near: dict[str, list[_Module]] = {}
        self._numbers = {number for module in self._before.values() for number in module.numbers()}
        self._remade = remade
        remade.begin()

    def replaced(self) -> list[str]:
        """Those that are others now, or are gone: `["json.encoder.JSONEncoder.encode by encode of shop/cart.py"]`."""
        return self._others(self._before.values(), constants=False)

    def near(self, used: object) -> list[str]:
        """Those of them in the module of a function or class that is used, and in the modules that this module names.

        Constants of their classes are compared here too, such as how close numbers are to be.
        """
        title = getattr(used, "__module__", None)
        if not isinstance(title, str) or title not in self._before or title == "builtins":  # where classes cannot change
            return []
        if title not in self._near:
            names = {getattr(value, "__module__", None) for value in list(vars(sys.modules[title]).values())}
            titles = [title, *sorted(name for name in names if isinstance(name, str) and name != title)]
            self._near[title] = [self._before[name] for name in titles if name in self._before]
        return self._others(self._near[title], constants=True)

    def _others(self, modules: Iterable[_Module], constants: bool) -> list[str]:
        remade = self._remade.others() & self._numbers
        found = [name for module in modules for name in module.others(remade, constants)]
        found.sort()
        return found


class _Module:
    """What a module and its classes hold.

    Nearly always all of it is what it was, which takes a step for each class to find out, whatever it holds.
    """

    def __init__(self, title: str, module: types.ModuleType) -> None:
        self._title, self._module = title, module
        classes = [(name, value) for name, value in list(vars(module).items()) if _of(title, value)]
        self._spaces = [_Space(title, module), *(_Space(f"{title}.{name}", value) for name, value in classes)]

    def numbers(self) -> Iterator[int]:
        """Those of its functions."""
        return (id(_inner(value)) for space in self._spaces for value in space.values if _acts(value))

    def others(self, remade: Container[int], constants: bool) -> Iterator[str]:
        """What is another thing, with what it is: functions, classes, what came later and acts, and `constants` of classes."""
        if sys.modules.get(self._title) is not self._module:
            yield self._title
        for space in self._spaces:
            if remade or not space.same():
                yield from space.others(remade, constants)


class _Space:
    """What a module or a class holds."""

    def __init__(self, name: str, owner: Any) -> None:
        self._name, self._owner, self._held = name, owner, {**vars(owner)}
        self.values = [*self._held.values()]

    def same(self) -> bool:
        """Is all that it holds what it was?"""
        held = vars(self._owner)
        return len(held) == len(self.values) and _all(_map(_is, held.values(), self.values))

    def others(self, remade: Container[int], constants: bool) -> Iterator[str]:
        """What is another thing, with what it is."""
        held, kind = vars(self._owner), isinstance(self._owner, type)
        for key, value in self._held.items():
            counts = _acts(value) or ((constants and type(value) in _PLAIN) if kind else _of(self._name, value))
            if counts and (held.get(key) is not value or id(_inner(value)) in remade):
                yield f"{self._name}.{key}{_by(held.get(key))}"
        for key in sorted(held.keys() - self._held.keys()):
            if _matters(key, held[key], self._owner):
                yield f"{self._name}.{key}{_by(held[key])}"


def _of(title: str, value: object) -> bool:
    """Is this a class that the module of this name defines?"""
    return isinstance(value, type) and value.__module__ == title


def _matters(name: str, value: object, owner: object) -> bool:
    """Does what came later stand for something else: in a module for a builtin, in a class for what an instance or a base has?

    Plain values are no matter: pytest itself notes some in its classes as it goes.
    """
    return hasattr(type(value), "__get__") if isinstance(owner, type) else name in vars(builtins)


def _by(value: object) -> str:
    """What a function is that stands there now, as what plugins put there is the same with every attempt: `" by same of shop/cart.py"`."""
    code = getattr(_inner(value), "__code__", None)
    return f" by {code.co_name} of {'/'.join(code.co_filename.split('/')[-2:])}" if isinstance(code, types.CodeType) else ""


def _acts(value: object) -> bool:
    return isinstance(value, _ACTS)


def _inner(value: object) -> object:
    """The function of a method of a class, a static one or a property."""
    return getattr(value, "__func__", getattr(value, "fget", None) or value)
