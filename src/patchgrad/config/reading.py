"""A value from TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin

from patchgrad.config.kinds import NONE, dotted, hints, is_inline, is_rows, is_table, known, optional, wrong
from patchgrad.config.writing import leaves
from patchgrad.errors import ConfigError

T = TypeVar("T")


def loads(cls: type[T], text: str) -> T:
    """The value that the text describes; `loads(type(v), dumps(v)) == v`."""
    return of_table(cls, parsed(text))


def parsed(text: str) -> dict[str, Any]:
    """The text's table."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"This is not valid TOML: {error}.") from None


def of_table(cls: type[T], table: Mapping[str, Any]) -> T:
    """The value that a table describes."""
    made: T = from_table(cls, table, ())
    return made


def merged(value: T, table: Mapping[str, Any]) -> T:
    """A copy with what the table sets; what it does not name stays. Only the outcome has to be valid.

    `[stages.0]` changes the first of the value's stages; `[[stages]]` gives other stages, each from its own defaults.
    """
    made: T = _merged(value, table, ())
    return made


def _merged(value: Any, table: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    kinds = hints(type(value))
    for key in table:
        known(key, kinds, path, partial(leaves, value))
    return replace(value, **{key: _onto(getattr(value, key), kinds[key], item, (*path, key)) for key, item in table.items()})


def _onto(current: Any, kind: Any, item: Any, path: tuple[str, ...]) -> Any:
    if isinstance(item, Mapping) and is_table(current):
        return _merged(current, item, path)
    if isinstance(item, Mapping) and is_rows(current):
        for key in item:
            known(key, [str(i) for i in range(len(current))], path)
        return tuple(_merged(row, item.get(str(i), {}), (*path, str(i))) for i, row in enumerate(current))
    return read(kind, item, path)


def from_table(cls: Any, table: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """A dataclass from its table; what is missing has its default, and so has what a table in it leaves out."""
    kinds, own = hints(cls), {field.name: field for field in fields(cls)}
    for key in table:
        known(key, own, path)
    given = {key: _onto(_default(own[key]), kinds[key], item, (*path, key)) for key, item in table.items()}
    absent = [name for name, field in own.items() if name not in given and _required(field)]
    if absent:
        raise ConfigError(f"{dotted((*path, absent[0]))} is missing, and it has no default.")
    return cls(**given)


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def read(kind: Any, item: Any, path: tuple[str, ...]) -> Any:
    """A field's value from what TOML has; `ConfigError` where it is of another type."""
    kind, absent = optional(kind)
    if absent and item == NONE:
        return None
    if is_inline(kind):
        if isinstance(item, str | Mapping):
            return kind.read(item, dotted(path))
    elif is_dataclass(kind):
        if isinstance(item, Mapping):
            return from_table(kind, item, path)
    elif get_origin(kind) is tuple:
        return _items(kind, item, path)
    elif get_origin(kind) is Literal:
        if any(type(item) is type(choice) and item == choice for choice in get_args(kind)):
            return item
    elif kind is float:
        if isinstance(item, int | float) and not isinstance(item, bool):
            return float(item)
    elif kind in (bool, int, str) and type(item) is kind:
        return item
    raise wrong(path, item, kind, absent)


def _items(kind: Any, item: Any, path: tuple[str, ...]) -> tuple[Any, ...]:
    parts = get_args(kind)
    if not isinstance(item, list | tuple):
        raise wrong(path, item, kind, False)
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(read(parts[0], part, (*path, str(i))) for i, part in enumerate(item))
    if len(parts) != len(item):
        raise wrong(path, item, kind, False)
    return tuple(read(part, one, (*path, str(i))) for i, (part, one) in enumerate(zip(parts, item, strict=True)))
