"""The functions of what tests decide with: which of them are others than they were."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator, Sequence
from importlib import import_module

_DECIDES = {"_pytest", "pytest", "pluggy", "unittest", "hypothesis", "operator", "json", "builtins"}


class Functions:
    """All functions of what tests decide with, as they are when this is made, after the modules were loaded."""

    def __init__(self, modules: Sequence[str], deciders: Sequence[str]) -> None:
        self._deciders = _DECIDES.union(deciders)
        for name in modules:
            with contextlib.suppress(Exception):  # what is missing is not compared
                import_module(name)
        self._before = dict(self._all()) if modules else {}

    def replaced(self) -> list[str]:
        """Those that are others now, or are gone: `["json.encoder.JSONEncoder.encode"]`."""
        now = dict(self._all()) if self._before else {}
        return sorted(name for name, was in self._before.items() if now.get(name) != was)

    def _all(self) -> Iterator[tuple[str, tuple[object, object]]]:
        for title, module in list(sys.modules.items()):
            if isinstance(module, types.ModuleType) and title.partition(".")[0] in self._deciders:
                for name, value in list(vars(module).items()):
                    if isinstance(value, type) and value.__module__ == title:
                        yield from ((f"{title}.{name}.{key}", _code(own)) for key, own in list(vars(value).items()) if _acts(own))
                    elif _acts(value):
                        yield f"{title}.{name}", _code(value)


def _acts(value: object) -> bool:
    kinds = types.FunctionType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType
    return isinstance(value, (*kinds, classmethod, staticmethod, property))


def _code(value: object) -> tuple[object, object]:
    inner = getattr(value, "__func__", getattr(value, "fget", None) or value)
    return value, getattr(inner, "__code__", None)
