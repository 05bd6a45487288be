"""What a field may hold, and what is said of a value that it may not."""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Self, TypeGuard, Union, get_args, get_origin, get_type_hints

from patchgrad.errors import ConfigError

NONE = "none"
CLOSE = 0.8  # a key is meant that is another by a letter or so


class Inline:
    """A dataclass that TOML writes as one value: text, or an inline table of plain values. `dumps` and `loads` ask it how."""

    __slots__ = ()

    def told(self) -> str | Mapping[str, Any]:
        """What stands in the file: text, or a table."""
        raise NotImplementedError

    @classmethod
    def read(cls, item: str | Mapping[str, Any], key: str) -> Self:
        """What `told` has told; `ConfigError` where it cannot be that."""
        raise NotImplementedError

    def having(self, changes: Mapping[str, str], key: str) -> Self:
        """A copy with some of its own fields set from text, as `--reward.weight 2` does; `ConfigError` for one that it cannot have."""
        raise NotImplementedError


def is_inline(kind: Any) -> TypeGuard[type[Inline]]:
    """Is it a type that TOML writes as one value?"""
    return isinstance(kind, type) and issubclass(kind, Inline)


def is_table(item: Any) -> bool:
    """Is it a value, or a type, that has a table of its own?"""
    return is_dataclass(item) and not isinstance(item, Inline) and not is_inline(item)


def is_rows(item: Any) -> TypeGuard[tuple[Any, ...]]:
    """Is it a tuple of dataclasses, each with a table of its own?"""
    return isinstance(item, tuple) and bool(item) and is_table(item[0])


_HINTS: dict[Any, dict[str, Any]] = {}


def hints(cls: Any) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    if cls not in _HINTS:
        _HINTS[cls] = get_type_hints(cls)
    return _HINTS[cls]


def optional(kind: Any) -> tuple[Any, bool]:
    """The type without `None`, and whether `None` was in it."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [part for part in get_args(kind) if part is not type(None)]
        if len(rest) == 1:
            return rest[0], True
    return kind, False


def dotted(path: tuple[str, ...]) -> str:
    """`("stages", "0", "lr")` -> `"stages.0.lr"`."""
    return ".".join(path)


def known(key: str, names: Iterable[str], path: tuple[str, ...], below: Callable[[], Iterable[str]] = tuple) -> None:
    """`ConfigError` for a key that is not among the names, with the nearest one, or with the nearest that stands `below` one of them."""
    there = list(names)
    if key in there:
        return
    near = difflib.get_close_matches(key, there, n=1, cutoff=0.5)
    if not near or difflib.SequenceMatcher(None, key, near[0]).ratio() < CLOSE:
        inner = {name.rpartition(".")[2]: name for name in below()}
        near = [inner[name] for name in difflib.get_close_matches(key, inner, n=1, cutoff=CLOSE)] or near
    hint = f"did you mean {dotted((*path, near[0]))}?" if near else f"valid here: {', '.join(sorted(there))}."
    raise ConfigError(f"There is no key {dotted((*path, key))}; {hint}")


def wrong(path: tuple[str, ...], item: Any, kind: Any, absent: bool) -> ConfigError:
    """What is said of a value that is not of its field's type; `absent` tells that it may be none."""
    given = repr(item) if isinstance(item, str) else json.dumps(item, default=str)
    return ConfigError(f"{dotted(path)} must be {words(kind)}{' or none' if absent else ''}, but {given:.80} was given.")


def words(kind: Any) -> str:
    """A type in plain words."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        many = len(parts) == 2 and parts[1] is Ellipsis
        return f"a list, each item {words(parts[0])}" if many else f"a list of {len(parts)} items"
    if is_inline(kind):
        return "a name, or a table with a name and its options"
    if is_dataclass(kind):
        return "a table with " + ", ".join(field.name for field in fields(kind))
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(kind, str(kind))
