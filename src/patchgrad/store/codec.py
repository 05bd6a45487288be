"""Values <-> plain data (dicts, lists, text, numbers), exactly and by type, so that a file says what a value was.

A dataclass is a dict of its fields, a tuple a list, an array or bytes little-endian base64. The way back follows the type hints;
in a union the dataclass is chosen whose field names are the keys. A field that has a default may be missing: the data was written before
there was such a field.
"""

from __future__ import annotations

import base64
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from patchgrad.errors import StoreError
from patchgrad.values import stored_name

T = TypeVar("T")
_KNOWN: dict[type, dict[str, Any]] = {}


def plain(item: Any) -> Any:
    """A value as data that JSON can hold: `plain(Call("open", "a.py"))` -> `{"tool": "open", "arguments": "a.py"}`."""
    if item is None or isinstance(item, str | int | float):
        return item
    if isinstance(item, np.ndarray):
        return base64.b64encode(item.astype(item.dtype.newbyteorder("<")).tobytes()).decode()
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    if is_dataclass(item):
        return {stored_name(field): plain(getattr(item, field.name)) for field in fields(item)}
    if isinstance(item, Mapping):
        return {key: plain(part) for key, part in item.items()}
    if isinstance(item, tuple | list):
        return [plain(part) for part in item]
    raise StoreError(f"A {type(item).__name__} cannot be stored.")


def finite(data: Any) -> Any:
    """Plain data as JSON knows it: a number that is not finite becomes null, which `value` reads as one that is not known."""
    if isinstance(data, Mapping):
        return {key: finite(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [finite(item) for item in data]
    if data is None or isinstance(data, str | int):
        return data
    number = float(data)  # numpy's and torch's scalars too
    return number if math.isfinite(number) else None


def value(cls: type[T], data: Any) -> T:
    """The value that `plain` made this data from: `value(type(v), plain(v)) == v`, arrays bit for bit."""
    try:
        made: T = _value(cls, data)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"A stored {cls.__name__} cannot be read: {type(error).__name__} {error}.") from error
    return made


def _value(kind: Any, data: Any) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return None if data is None else _value(_member(get_args(kind), data), data)
    if is_dataclass(kind):
        return _dataclass(kind, data)
    if origin is tuple:
        return _items(get_args(kind), data)
    if origin is np.ndarray:
        (scalar,) = get_args(get_args(kind)[1])
        array = np.frombuffer(base64.b64decode(data), np.dtype(scalar).newbyteorder("<")).astype(scalar)
        array.setflags(write=False)
        return array
    if origin is not None and origin is not Literal:  # the only other generic of `values` is a mapping
        return {key: _value(get_args(kind)[1], part) for key, part in data.items()}
    if kind is float and data is None:
        return math.nan
    return base64.b64decode(data) if kind is bytes else data


def _dataclass(kind: Any, data: Any) -> Any:
    if kind not in _KNOWN:
        _KNOWN[kind] = get_type_hints(kind)
    there = [field for field in fields(kind) if stored_name(field) in data or _required(field)]
    return kind(**{field.name: _value(_KNOWN[kind][field.name], data[stored_name(field)]) for field in there})


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _items(kinds: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if kinds[1:] == (Ellipsis,):
        return tuple(_value(kinds[0], part) for part in data)
    return tuple(_value(kind, part) for kind, part in zip(kinds, data, strict=True))


def _member(kinds: tuple[Any, ...], data: Any) -> Any:
    rest = [kind for kind in kinds if kind is not type(None)]
    if len(rest) == 1:
        return rest[0]
    fitting = [kind for kind in rest if {stored_name(field) for field in fields(kind)} == set(data)]
    if len(fitting) != 1:
        raise ValueError(f"none of {', '.join(kind.__name__ for kind in rest)} has the fields {', '.join(map(str, data))}")
    return fitting[0]
