"""The functions of what tests decide with: which of them are others than they were."""

from __future__ import annotations

import builtins
import contextlib
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

_DECIDES = {"_pytest", "pytest", "pluggy", "unittest", "hypothesis", "operator", "json", "builtins"}
_PLAIN = (int, float, str, bool)
_MOST = 500  # functions that are looked at for one that is used
Held = tuple[str, Mapping[str, Any], "str | None", object, Collection[Any]]


class Functions:
    """All functions of what tests decide with, as they are when this is made, after the modules were loaded."""

    def __init__(self, modules: Sequence[str], deciders: Sequence[str]) -> None:
        for name in modules:
            with contextlib.suppress(Exception):  # what is missing is not compared
                import_module(name)
        self._before = dict(_held(_DECIDES.union(deciders))) if modules else {}
        self._near: dict[str, list[Held]] = {}

    def replaced(self) -> list[str]:
        """Those that are others now, or are gone: `["json.encoder.JSONEncoder.encode by encode of shop/cart.py"]`."""
        return sorted(name for held in self._before.values() for name in _others(one for one in held if type(one[3]) not in _PLAIN))

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
            self._near[title] = [held for name in titles for held in self._before.get(name, ())][:_MOST]
        return [*_others(self._near[title])]


def _others(held: Iterable[Held]) -> Iterator[str]:
    for name, space, key, value, made in held:
        if key is None:
            later = sorted(space.keys() - made) if len(space) != len(made) else ()
            yield from (f"{name}.{other}{_by(space[other])}" for other in later if _matters(other, space[other], value))
        elif space.get(key) is not value or any(one is not before for one, before in zip(_made_of(value), made)):  # noqa: B905  # since 3.10
            yield name + _by(space.get(key))


def _matters(name: str, value: object, owner: object) -> bool:
    """Does what came later stand for something else: in a module for a builtin, in a class for what an instance or a base has?

    Plain values are no matter: pytest itself notes some in its classes as it goes.
    """
    return hasattr(type(value), "__get__") if isinstance(owner, type) else name in vars(builtins)


def _by(value: object) -> str:
    """What a function is that stands there now, as what plugins put there is the same with every attempt: `" by same of shop/cart.py"`."""
    code = _made_of(value)[0]
    return f" by {code.co_name} of {'/'.join(code.co_filename.split('/')[-2:])}" if isinstance(code, types.CodeType) else ""


def _held(deciders: set[str]) -> Iterator[tuple[str, list[Held]]]:
    """Each module, by name, with its classes and functions: where each is held by which key, what it is, and what it is made of.

    Without a key, what all is held by a module or a class: what acts there and comes later takes the place of something else.
    """
    for title, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and title.partition(".")[0] in deciders:
            yield title, [*_of_module(title, module)]


def _of_module(title: str, module: types.ModuleType) -> Iterator[Held]:
    yield title, sys.modules, title, module, ()
    yield title, vars(module), None, module, frozenset(vars(module))
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == title:
            yield f"{title}.{name}", vars(module), name, value, ()
            yield f"{title}.{name}", vars(value), None, value, frozenset(vars(value))
            own = [(key, one) for key, one in list(vars(value).items()) if _acts(one) or type(one) in _PLAIN]
            yield from ((f"{title}.{name}.{key}", vars(value), key, one, _made_of(one)) for key, one in own)
        elif _acts(value):
            yield f"{title}.{name}", vars(module), name, value, _made_of(value)


def _acts(value: object) -> bool:
    kinds = types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType
    return isinstance(value, (*kinds, classmethod, staticmethod, property))


def _made_of(value: object) -> tuple[object, ...]:
    """The code and the defaults of a function."""
    inner = getattr(value, "__func__", getattr(value, "fget", None) or value)
    return tuple(getattr(inner, name, None) for name in ("__code__", "__defaults__", "__kwdefaults__"))
