"""Values that lie: which others a value could claim to be, and whether what it says of itself fits together."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import eq
from typing import Any

_MOST = 2_000  # values of a container that are looked at
PLAIN = (int, float, str, bytes, bool, complex, type(None))
_PLAINLY: Mapping[type, Callable[[Any], Any]] = {  # what a value of a class of its own is without that class
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    list: lambda value: list.__getitem__(value, slice(None)),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    dict: dict.copy,
}
_MADE: Mapping[type, tuple[Callable[[Any], Any], ...]] = {  # how a value of another type is made one of these
    bool: (bool,),
    int: (int, float),
    float: (float,),
    str: (str,),
    bytes: (bytes,),
    list: (list,),
    tuple: (tuple,),
    set: (set,),
    dict: (dict,),
}


def mixes(kind: type, expected: Any) -> bool:
    """Is this, beside what is expected, an exception of two more kinds of the built-in ones that have nothing to do with each other?"""
    own = [base for base in kind.__mro__ if base.__module__ == "builtins" and base not in (object, BaseException, Exception)]
    lowest = [base for base in own if not any(other is not base and issubclass(other, base) for other in own)]
    wanted = expected if isinstance(expected, tuple) else (expected,)
    return sum(not any(isinstance(one, type) and issubclass(base, one) for one in wanted) for base in lowest) > 1


def disordered(left: Any, right: Any) -> bool:
    """Is one of these no number that lies somewhere, though it is compared with a number?"""
    for one, number in ((left, right), (right, left)):
        if type(number) in (int, float) and type(one) not in PLAIN:
            steps = [number - 1000, number - 1, number - 0.5, number, number + 0.5, number + 1, number + 1000]
            try:
                sides = {step: [one < step, one == step, one > step] for step in random.SystemRandom().sample(steps, len(steps))}
                loose = [(one <= step) != (one < step or one == step) or (one >= step) != (one > step or one == step) for step in steps]
            except Exception:  # it is compared, and no number
                return True
            if any(not isinstance(claim, bool) for claims in sides.values() for claim in claims):
                return False
            below = [claims[0] for _, claims in sorted(sides.items())]
            return below != sorted(below) or any(loose) or any(claims.count(True) != 1 for claims in sides.values())
    return False


def contradicts(holds: Callable[[Any, Any], Any], left: Any, right: Any, depth: int = 3) -> bool:
    """Is one of these, for which `==`, `<`, `in` or the like holds, no such value: does it not hold for what is plain of them?

    What is equal must not be unequal too, nor of another hash.
    """
    if type(left) in PLAIN and type(right) in PLAIN:
        return False
    if depth and holds is eq and type(left) is type(right) and type(left) in (list, tuple, dict):
        return any(contradicts(eq, one, other, depth - 1) for one, other in _pairs(left, right))
    with contextlib.suppress(Exception):  # what cannot be compared tells nothing
        if holds is eq and left == right and (left != right or _hashes_differ(left, right)):
            return True
    with contextlib.suppress(Exception):
        one, other = _plain(left, right), _plain(right, left)
        lasting = hasattr(type(right), "__len__") or not hasattr(type(right), "__iter__")  # what is looked through is there afterwards
        if lasting and (one is not left or other is not right) and holds(left, right):
            near = type(one) is float and type(other) in (int, float) and abs(one - other) <= 1e-6 * max(1.0, abs(other))
            return not (near or holds(one, other))
    return False


def hollow(value: Any, right: Any, depth: int = 3) -> bool:
    """Is this equal to a plain value, number, text or container, and not to be had as one: a matcher, or an object that only claims it?

    hollow(Decimal(3), 3) is False, since int(Decimal(3)) == 3; hollow(mock.ANY, 3) is True.
    """
    if depth and type(value) is type(right) and type(value) in (list, tuple, dict):
        return any(hollow(one, other, depth - 1) for one, other in _pairs(value, right))
    if type(right) not in _MADE or isinstance(value, (type(right), type(None))) or type(value) in PLAIN or not eq(value, right):
        return False
    for make in _MADE[type(right)]:
        with contextlib.suppress(Exception):
            made = make(value)
            return not (made == right or (type(made) is float and abs(made - right) <= 1e-6 * max(1.0, abs(right))))
    return True


def plain(value: Any) -> bool:
    """Is this a number, a text, or a container, and no object of a class of its own?"""
    return type(value) in _MADE


def _pairs(left: Any, right: Any) -> Iterator[tuple[Any, Any]]:
    if type(left) is dict:
        yield from ((value, right[key]) for key, value in list(left.items())[:50] if key in right)
    else:
        yield from list(zip(left, right))[:50]  # noqa: B905  # since Python 3.10


def _hashes_differ(left: Any, right: Any) -> bool:
    with contextlib.suppress(TypeError):
        return hash(left) != hash(right)
    return False


def _plain(value: Any, other: Any) -> Any:
    """What is plain of a value of a class of its own: a text, a list; or a number, where it is held against one. Else it is as it is."""
    kind = type(value)
    if kind in PLAIN or kind is Counter:  # which counts what it does not hold as none
        return value
    for base, plainly in _PLAINLY.items():
        if base in kind.__mro__:
            return value if kind is base else plainly(value)
    if (type(other) in (int, float) or type(other).__name__.startswith("Approx")) and hasattr(kind, "__float__"):
        return float(value)
    return int(value) if type(other) is int and hasattr(kind, "__int__") else value


def others(value: Any) -> list[Any]:
    """Values that look like this one, and are others, in random order: `2` -> `[3, 1, 4, ...]`; none where it is of no plain type.

    They are the same ones each time: what an honest value is equal to besides, it is equal to with the solution as well.
    """
    found = similar(value)
    return random.SystemRandom().sample(found, len(found))


def similar(value: Any) -> list[Any]:
    """The same in an order of their own."""
    with contextlib.suppress(Exception):
        return [other for other in _alike(value) if type(other) is not type(value) or other != value]
    return []


def _alike(value: Any) -> list[Any]:
    kind: Any = type(value)
    if kind is bool:
        return [not value]
    if kind in (int, float):
        return [value + 1, value - 1, value + 2, value - 2, value * 2, -value, value + 10, value + 0.5]
    if kind is str:
        return _texts(value)
    if kind is bytes:
        return [text.encode("latin-1") for text in _texts(value.decode("latin-1"))]
    if kind in (list, tuple) and 0 < len(value) < _MOST:
        places = {0, len(value) // 2, len(value) - 1}
        swapped = [kind([*value[:at], other, *value[at + 1 :]]) for at in sorted(places) for other in similar(value[at])]
        return [*swapped[:9], value[:-1], value + value[-1:], value[::-1]]
    if kind in (set, frozenset) and 0 < len(value) < _MOST:
        one = next(iter(value))
        return [value - {one}, *((value - {one}) | {other} for other in similar(one)[:3])]
    if kind is dict and 0 < len(value) < _MOST:
        name = next(iter(value))
        return [{key: held for key, held in value.items() if key != name}, *({**value, name: other} for other in similar(value[name])[:5])]
    if kind.__name__.startswith("Approx") and hasattr(value, "expected"):
        near = {name: getattr(value, name) for name in ("rel", "abs", "nan_ok")}
        return [kind(other, **near) for other in _alike(value.expected) if other != value]
    return []


def _texts(text: str) -> list[str]:
    """`"cab"` -> `"cbb"`, `"bac"`, `"ca"` and others."""
    middle = len(text) // 2
    other = chr(ord(text[middle]) ^ 1) if text else "a"
    first = chr(ord(text[0]) ^ 3) + text[1:] if text else "b"
    changed = text[:middle] + other + text[middle + 1 :]
    return [changed, first, text[:-1], text + text[-1:], text[::-1], text.swapcase(), text[1:] + text[:1], "x" * len(text)]
