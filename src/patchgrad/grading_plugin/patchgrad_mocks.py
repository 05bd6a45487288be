"""How mocks were truly called, whatever they say: kept apart from the mocks, and held against what a test asks them.

client.send(4); client.send.call_args = call(3)   ->   belied(client.send, "call_args")
"""

from __future__ import annotations

import functools
import gc
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

_SECONDS = 0.5  # in which threads and timers that were left behind may end
Call = tuple[tuple[Any, ...], dict[str, Any]]


class Calls:
    """The calls of all mocks of `unittest.mock`, from when they are `kept`, and the mocks that are made by a file of the submission.

    Made before any code that could change mocks is loaded.
    """

    def __init__(self, touched: set[str]) -> None:
        from unittest import mock

        self.kept = False
        self._kind: type = mock.NonCallableMock
        self._codes = {code for value in vars(mock).values() for code in _codes(value, mock.__name__)}
        own = [kind for kind in vars(mock).values() if isinstance(kind, type) and kind.__module__ == mock.__name__]
        self._classes = {*own, object}
        self._methods = {name for kind in own for name, value in vars(kind).items() if isinstance(value, types.FunctionType)}
        self._own: dict[int, tuple[Any, list[Call]]] = {}
        self._below: dict[int, tuple[Any, list[Call]]] = {}
        self._looked: dict[int, int] = {}  # mocks that were asked -> how often they had been called when the test ended
        self._made: dict[int, Any] = {}
        self._touched = touched
        self._wrap(mock.CallableMixin, "_increment_mock_call", self._note)
        self._wrap(mock.NonCallableMock, "__init__", self._note_made)

    def belied(self, owner: Any, name: str) -> bool:
        """Is it no mock's own word that this says by this name? What is no mock at all, and has such a name, is none."""
        if isinstance(owner, types.FunctionType) and "mock" in vars(owner):  # a function with a specification, made by a mock
            instead, owner = vars(owner).get(name), vars(owner)["mock"]
            if isinstance(instead, types.FunctionType) and instead.__code__ not in self._codes:
                return True
        if not issubclass(type(owner), self._kind):
            return not isinstance(owner, types.ModuleType) and hasattr(self._kind, name)
        self._looked[id(owner)] = len(self._calls(self._own, owner))
        return id(owner) in self._made or self._changed(owner) or self._twin(owner) or not self._told(owner)

    def ended(self) -> None:
        """The test has come to its end: no mock that it asked should be called any more."""
        for number in self._looked:
            self._looked[number] = len(self._own.get(number, (None, []))[1])

    def late(self) -> bool:
        """Has a mock that was asked been called since the test ended? Threads of the test are given time to end, and garbage is."""
        if not self._looked:
            return False
        ends = time.monotonic() + _SECONDS
        for thread in {*threading.enumerate()} - {threading.current_thread()}:
            thread.join(max(0.0, ends - time.monotonic()))
        if signal.getitimer(signal.ITIMER_REAL)[0]:
            time.sleep(max(0.0, ends - time.monotonic()))
        gc.collect()
        return any(len(self._own.get(number, (None, []))[1]) > before for number, before in self._looked.items())

    def _wrap(self, kind: Any, name: str, note: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]) -> None:
        real = vars(kind).get(name)
        if real is None:  # before Python 3.8
            return

        @functools.wraps(real)
        def noted(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            found = real(self, *args, **kwargs)
            note(self, args, kwargs)
            return found

        setattr(kind, name, noted)
        self._codes.update(_codes(vars(kind)[name], kind.__module__))

    def _note(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.kept and sys._getframe(2).f_code in self._codes:  # else it is no call, and only recorded as one
            self._calls(self._own, owner).append((args, kwargs))
            while owner is not None:
                self._calls(self._below, owner).append((args, kwargs))
                owner = vars(owner).get("_mock_new_parent")

    def _note_made(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A mock that is no part of another one, made by code of the submission: no test can mean it."""
        alone = vars(owner).get("_mock_parent") is None and vars(owner).get("_mock_new_parent") is None
        frame: Any = sys._getframe(1) if self.kept and alone else None
        while frame is not None and (frame.f_code in self._codes or frame.f_code.co_filename.startswith("<")):
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename in self._touched:
            self._made[id(owner)] = owner

    def _calls(self, kept: dict[int, tuple[Any, list[Call]]], owner: Any) -> list[Call]:
        return kept.setdefault(id(owner), (owner, []))[1]

    def _twin(self, owner: Any) -> bool:
        """Was another mock called that stands for the same thing? `told - 1` may call one, and `told.__sub__` ask the next."""
        place = [vars(owner).get(name) for name in ("_mock_new_parent", "_mock_new_name")]
        called = [other for other, calls in self._own.values() if calls and other is not owner]
        return place[0] is not None and any(
            vars(other).get("_mock_new_parent") is place[0] and vars(other).get("_mock_new_name") == place[1] for other in called
        )

    def _changed(self, owner: Any) -> bool:
        """Has this mock, or the class of its own that each mock has, another method than mocks have?"""
        spaces = [vars(kind) for kind in type(owner).__mro__ if kind not in self._classes]
        found = [value for space in spaces for name, value in space.items() if name in self._methods and name[:2] != "__"]
        return bool(self._methods & vars(owner).keys()) or any(getattr(one, "__code__", None) not in self._codes for one in found)

    def _told(self, owner: Any) -> bool:
        """Does a mock say what happened?"""
        own, below = self._calls(self._own, owner), self._calls(self._below, owner)
        said = list(owner.call_args_list)
        return (
            len(said) == len(own) == owner.call_count
            and owner.called == bool(own)
            and all(map(_same, [*said, *([owner.call_args] if own else ())], [*own, *own[-1:]]))
            and len(owner.mock_calls) == len(below)
            and all(map(_same, owner.mock_calls, below))
        )


def _same(said: Any, call: Call) -> bool:
    """Is what a mock says of a call this very call?"""
    args, kwargs = tuple(said)[-2:]
    return (
        len(args) == len(call[0])
        and all(one is other for one, other in zip(args, call[0]))  # noqa: B905  # since Python 3.10
        and kwargs.keys() == call[1].keys()
        and all(value is call[1][name] for name, value in kwargs.items())
    )


def _codes(value: Any, module: str) -> Iterator[types.CodeType]:
    """All code of a function or class of this module, what is inside of functions too."""
    if isinstance(value, types.CodeType):
        yield value
        for part in value.co_consts:
            yield from _codes(part, module)
    elif isinstance(value, types.FunctionType) and value.__module__ == module:
        yield from _codes(value.__code__, module)
    elif isinstance(value, type) and value.__module__ == module:
        for one in list(vars(value).values()):
            yield from _codes(one, module)
