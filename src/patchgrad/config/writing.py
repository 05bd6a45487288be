"""A value as TOML, and its fields by dotted names."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from patchgrad.config.kinds import NONE, Inline, dotted, hints, is_rows, is_table, optional
from patchgrad.errors import ConfigError

WIDTH = 140  # of a line of comment


def dumps(value: Any, remarks: Mapping[str, str] = MappingProxyType({})) -> str:
    """The value as TOML, every field of it: `dumps(Point(1, 2.0))` -> `'x = 1\\ny = 2.0\\n'`. Remarks are comments, by dotted name."""
    return "\n".join(_table(value, (), (), remarks)).lstrip("\n") + "\n"


def differing(value: Any, other: Any, remarks: Mapping[str, str] = MappingProxyType({})) -> str:
    """As TOML the fields that another value of the same type has otherwise; `merged` onto that one they give this one.

    Of a tuple of dataclasses as long as the other's a row is a table by its number, `[stages.0]`; of another length all rows are written.
    """
    return "\n".join(_difference(value, other, (), remarks)).lstrip("\n") + "\n"


def leaves(value: Any) -> dict[str, Any]:
    """Every field that holds no other, by the dotted name that `override` takes: `{"seed": 0, "stages.0.lr": 1e-06}`."""
    found: dict[str, Any] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        inner = {"": item} if is_table(item) else {f"{i}.": row for i, row in enumerate(item)} if is_rows(item) else {}
        found |= {f"{field.name}.{place}{key}": leaf for place, part in inner.items() for key, leaf in leaves(part).items()}
        if not inner:
            found[field.name] = item
    return found


def written(item: Any) -> str:
    """A field's value as TOML: `written("a")` -> `'"a"'`."""
    return _scalar(item, Any, ())


def _table(value: Any, path: tuple[str, ...], place: tuple[str, ...], remarks: Mapping[str, str]) -> Iterator[str]:
    """Lines of a table; `path` is its header, `place` the same with the numbers of rows."""
    nested: list[tuple[str, Any]] = []
    for field in fields(value):
        item = getattr(value, field.name)
        if is_table(item) or is_rows(item):
            nested.append((field.name, item))
        else:
            yield from _line(value, field.name, place, remarks)
    for name, item in nested:
        inner = (*path, name)
        if is_table(item):
            yield f"\n[{dotted(inner)}]"
            yield from _table(item, inner, (*place, name), remarks)
        else:
            yield from _rows(item, inner, (*place, name), remarks)


def _rows(items: tuple[Any, ...], path: tuple[str, ...], place: tuple[str, ...], remarks: Mapping[str, str]) -> Iterator[str]:
    for number, row in enumerate(items):
        yield f"\n[[{dotted(path)}]]"
        yield from _table(row, path, (*place, str(number)), remarks)


def _difference(value: Any, other: Any, path: tuple[str, ...], remarks: Mapping[str, str]) -> Iterator[str]:
    """Lines of the fields that differ, under the headers that they need."""
    nested: list[tuple[str, Any, Any]] = []
    plain: list[str] = []
    for field in fields(value):
        mine, its = getattr(value, field.name), getattr(other, field.name)
        if type(mine) is type(its) and mine == its:
            continue
        if is_table(mine) or is_rows(mine):
            nested.append((field.name, mine, its))
        else:
            plain += _line(value, field.name, path, remarks)
    if plain:
        yield from [f"\n[{dotted(path)}]"] if path else []
        yield from plain
    for name, mine, its in nested:
        inner = (*path, name)
        if is_table(mine) and is_table(its):
            yield from _difference(mine, its, inner, remarks)
        elif is_table(mine):
            yield f"\n[{dotted(inner)}]"
            yield from _table(mine, inner, inner, remarks)
        elif len(mine) == len(its):
            for number, (row, old) in enumerate(zip(mine, its, strict=True)):
                yield from _difference(row, old, (*inner, str(number)), remarks)
        else:
            yield from _rows(mine, inner, inner, remarks)


def _line(value: Any, name: str, place: tuple[str, ...], remarks: Mapping[str, str]) -> Iterator[str]:
    key = (*place, name)
    if remark := remarks.get(dotted(key)):
        yield from textwrap.wrap(remark, WIDTH, initial_indent="# ", subsequent_indent="#   ")
    yield f"{name} = {_scalar(getattr(value, name), hints(type(value))[name], key)}"


def _scalar(item: Any, kind: Any, path: tuple[str, ...]) -> str:
    if item is None:
        return f'"{NONE}"'
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, int):
        return str(item)
    if isinstance(item, float):
        return "nan" if math.isnan(item) else repr(float(item))
    if isinstance(item, str):
        return _string(item, optional(kind)[1], path)
    if isinstance(item, Inline):
        return _scalar(item.told(), Any, path)
    if isinstance(item, Mapping):
        return "{" + ", ".join(f"{_bare(name)} = {_scalar(part, Any, (*path, name))}" for name, part in item.items()) + "}"
    if isinstance(item, tuple | list):
        return "[" + ", ".join(_scalar(part, Any, path) for part in item) + "]"
    raise ConfigError(f"{dotted(path)} is a {type(item).__name__}, which a recipe cannot hold.")


def _bare(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _string(name, False, ())


def _string(text: str, absent: bool, path: tuple[str, ...]) -> str:
    if absent and text == NONE:
        raise ConfigError(f'{dotted(path)} cannot be the text "{NONE}", because that means that it is absent.')
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{dotted(path)} holds text that is not valid Unicode.") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
