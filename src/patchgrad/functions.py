"""Functions and objects of the user's: what they are called, whether they take what they are given, and what is said when they fail.

named(small)                                     "small"
requires(small, "reward", (3,), "task, ...")     `ComponentError` where it cannot be called with three arguments
with calling("reward", small, "stage1/0/3/1"):   what it raises becomes one sentence that names it, the attempt and the line
"""

from __future__ import annotations

import functools
import inspect
import logging
import math
import numbers
import pickle
import time
import traceback
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from patchgrad.errors import ComponentError, Fault, PatchgradError, SandboxLost, ran_out

T = TypeVar("T")
log = logging.getLogger(__name__)

BLOCKED = 2.0
"""Seconds that a function may keep the event loop, in which all attempts wait, before it is told of."""


def named(part: object) -> str:
    """What a function, a class or an object is called: `named(functools.partial(small, weight=2.0))` is `small`."""
    if isinstance(part, functools.partial):
        return named(part.func)
    return part.__name__ if inspect.isroutine(part) or inspect.isclass(part) else type(part).__name__


def is_async(function: Callable[..., object]) -> bool:
    """Does it have to be awaited? Asked of a function, of a `functools.partial`, or of an object with an asynchronous `__call__`."""
    if isinstance(function, functools.partial):
        return is_async(function.func)
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function) and inspect.iscoroutinefunction(type(function).__call__)
    )


def takes(function: Callable[..., object], arguments: int) -> bool:
    """Can it be called with so many arguments? What has no signature, as some functions in C, is believed to."""
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def requires(function: object, kind: str, arguments: tuple[int, ...], described: str) -> None:
    """`ComponentError` for what cannot be called, or not with one of these numbers of arguments, which are `described`."""
    if not callable(function):
        raise ComponentError(f"The {kind} {named(function)} is no function: it has to be called with ({described}).")
    if not any(takes(function, count) for count in arguments):
        given = inspect.signature(function)
        raise ComponentError(f"The {kind} {named(function)} takes {given}, and it is called with ({described}).")


@contextmanager
def calling(kind: str, function: object, of: str = "") -> Iterator[None]:
    """What the function raises in here becomes a `ComponentError`.

    Faults of infrastructure, lost sandboxes and memory that ran out stay what they are.

    `The reward small failed on stage1/0/3/1: ZeroDivisionError: division by zero (mine.py, line 4).`
    """
    try:
        yield
    except (ComponentError, Fault, SandboxLost):
        raise
    except Exception as error:
        if ran_out(error):
            raise
        said = str(error) if isinstance(error, PatchgradError) else f"{type(error).__name__}: {error}"
        place = _place(function, error)
        where = f"{place.filename.rpartition('/')[2]}, line {place.lineno}"
        raise ComponentError(f"The {kind} {named(function)} failed{_on(of)}: {said} ({where}).") from error


def wrong(kind: str, function: object, value: object, wanted: str, of: str = "") -> ComponentError:
    """The sentence about what a function returned: `The reward small returned None on rft/0/0/1, and a number or a Reward is wanted.`"""
    said = repr(value) if value is None or isinstance(value, numbers.Number) else type(value).__name__
    return ComponentError(f"The {kind} {named(function)} returned {said}{_on(of)}, and {wanted} is wanted.")


def finite(kind: str, function: object, value: object, wanted: str, of: str = "") -> float:
    """The number that a function returned; `ComponentError` for anything else, NaN and infinity included."""
    if not isinstance(value, numbers.Real):
        raise wrong(kind, function, value, wanted, of)
    if not math.isfinite(value):
        raise wrong(kind, function, float(value), f"{wanted} that is finite", of)
    return float(value)


def _on(of: str) -> str:
    return f" on {of}" if of else ""


def _place(function: object, error: Exception) -> traceback.FrameSummary:
    """Where it failed: the last line of the function's own file, else the last one."""
    frames = traceback.extract_tb(error.__traceback__)
    try:
        own = inspect.getfile(function if inspect.isroutine(function) or inspect.isclass(function) else type(function))
    except (TypeError, OSError):
        own = ""
    return next((frame for frame in reversed(frames) if frame.filename == own), frames[-1])


@contextmanager
def timed(kind: str, function: object, advice: str, of: str = "") -> Iterator[None]:
    """Tells of a function that kept the event loop for longer than `BLOCKED`, and what would help."""
    began = time.monotonic()
    try:
        yield
    finally:
        if (took := time.monotonic() - began) > BLOCKED:
            log.warning("The %s %s kept all attempts waiting for %.1f seconds%s: %s.", kind, named(function), took, _on(of), advice)


@types.coroutine
def watched(coroutine: Coroutine[Any, Any, T], kind: str, function: object) -> Generator[Any, Any, T]:
    """Awaits a coroutine of the user's, and tells where one step of it blocks the event loop, as `time.sleep` does."""
    step: Callable[[], Any] = functools.partial(coroutine.send, None)
    while True:
        try:
            with timed(kind, function, "await what takes long, or write it without async, and it gets a thread of its own"):
                asked = step()
        except StopIteration as done:
            result: T = done.value
            return result
        try:
            step = functools.partial(coroutine.send, (yield asked))
        except BaseException as error:
            step = functools.partial(coroutine.throw, error)


def picklable(kind: str, part: T) -> T:
    """The part itself; `ComponentError` where it cannot be sent to another process, which an executor with workers elsewhere has to do."""
    try:
        pickle.dumps(part)
    except Exception as error:
        raise ComponentError(
            f"The {kind} {named(part)} cannot be sent to another process ({error}): define it at the top level of a module, and let it "
            "hold no open files, locks or connections."
        ) from error
    return part
