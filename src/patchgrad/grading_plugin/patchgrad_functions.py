"""The functions of what tests decide with: which of them are others than they were."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

_DECIDES = {"_pytest", "pytest", "pluggy", "unittest", "hypothesis", "operator", "json", "builtins"}
Held = tuple[str, Mapping[str, Any], str, object, object]


class Functions:
    """All functions of what tests decide with, as they are when this is made, after the modules were loaded."""

    def __init__(self, modules: Sequence[str], deciders: Sequence[str]) -> None:
        for name in modules:
            with contextlib.suppress(Exception):  # what is missing is not compared
                import_module(name)
        self._before = list(_held(_DECIDES.union(deciders))) if modules else []

    def replaced(self) -> list[str]:
        """Those that are others now, or are gone: `["json.encoder.JSONEncoder.encode"]`."""
        return sorted(name for name, space, key, value, code in self._before if space.get(key) is not value or _code(value) is not code)


def _held(deciders: set[str]) -> Iterator[Held]:
    """The name of each module, class and function, where it is held by which key, what it is, and its code."""
    for title, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and title.partition(".")[0] in deciders:
            yield title, sys.modules, title, module, None
            for name, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == title:
                    yield f"{title}.{name}", vars(module), name, value, None
                    own = [(key, one) for key, one in list(vars(value).items()) if _acts(one)]
                    yield from ((f"{title}.{name}.{key}", vars(value), key, one, _code(one)) for key, one in own)
                elif _acts(value):
                    yield f"{title}.{name}", vars(module), name, value, _code(value)


def _acts(value: object) -> bool:
    kinds = types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType
    return isinstance(value, (*kinds, classmethod, staticmethod, property))


def _code(value: object) -> object:
    inner = getattr(value, "__func__", getattr(value, "fget", None) or value)
    return getattr(inner, "__code__", None)
