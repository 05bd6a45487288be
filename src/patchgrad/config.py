"""TOML <-> the dataclasses themselves: a recipe is a frozen dataclass, and its file is the same value in words.

    dumps(recipe)                          text that `loads` turns back into an equal value
    dumps(recipe, {"rl.turns": "why"})     the same with a comment above a line
    loads(Recipe, text)                    missing keys keep their defaults; unknown ones are refused with the nearest valid name
    override(recipe, {"rl.turns": "12"})   what `--rl.turns 12` on a command line does

A field is a bool, int, float, str, `Literal`, a tuple of those, a dataclass, a tuple of dataclasses, or any of them `| None`.
`None` is written `"none"`, because TOML has no word for it. What a value may be beyond its type is the recipe's own business: it
raises `ConfigError` in `__post_init__`.
"""

from __future__ import annotations

import difflib
import json
import math
import textwrap
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from patchgrad.errors import ConfigError

T = TypeVar("T")
NONE = "none"
WIDTH = 140  # of a line of comment


def require(holds: bool, sentence: str) -> None:
    """Raises `ConfigError` with the sentence where it does not hold: what a recipe's `__post_init__` says of its values."""
    if not holds:
        raise ConfigError(sentence)


def within(least: float, most: float, of: str, value: Any, *names: str) -> None:
    """Refuses fields of a value that are neither none nor between both bounds: `within(1, inf, "agent.", choice, "window")`."""
    for name in names:
        given = getattr(value, name)
        bounds = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        require(given is None or least <= given <= most, f"{of}{name} is {given}; it must be {bounds}")


def dumps(value: Any, remarks: Mapping[str, str] = MappingProxyType({})) -> str:
    """The value as TOML, every field of it: `dumps(Point(1, 2.0))` -> `'x = 1\\ny = 2.0\\n'`. Remarks are comments, by dotted name."""
    return "\n".join(_table(value, (), (), remarks)).lstrip("\n") + "\n"


def leaves(value: Any) -> dict[str, Any]:
    """Every field that holds no other, by the dotted name that `override` takes: `{"seed": 0, "stages.0.lr": 1e-06}`."""
    found: dict[str, Any] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        inner = {"": item} if is_dataclass(item) else {f"{i}.": row for i, row in enumerate(item)} if _is_rows(item) else {}
        found |= {f"{field.name}.{place}{key}": leaf for place, part in inner.items() for key, leaf in leaves(part).items()}
        if not inner:
            found[field.name] = item
    return found


def written(item: Any) -> str:
    """A field's value as TOML: `written("a")` -> `'"a"'`."""
    return _scalar(item, Any, ())


def loads(cls: type[T], text: str) -> T:
    """The value that the text describes; `loads(type(v), dumps(v)) == v`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"This is not valid TOML: {error}.") from None
    made: T = _from_table(cls, data, ())
    return made


def override(value: T, changes: Mapping[str, str]) -> T:
    """A copy with some fields set from text, each read as its field's type, all at once: only the outcome has to be valid.

    `{"stages.0.turns": "12"}` reaches into a tuple of dataclasses; `{"betas": "0.9,0.95"}` gives a tuple of numbers;
    `{"warmup.steps": "5"}` on a table that is `None` starts from the table's defaults.
    """
    changed: T = _set(value, {tuple(key.split(".")): text for key, text in changes.items()}, ())
    return changed


# --- writing -------------------------------------------------------------------------------------


def _table(value: Any, path: tuple[str, ...], place: tuple[str, ...], remarks: Mapping[str, str]) -> Iterator[str]:
    """Lines of a table; `path` is its header, `place` the same with the numbers of rows."""
    nested: list[tuple[str, Any]] = []
    for field in fields(value):
        item = getattr(value, field.name)
        if is_dataclass(item) or _is_rows(item):
            nested.append((field.name, item))
        else:
            if remark := remarks.get(_key((*place, field.name))):
                yield from textwrap.wrap(remark, WIDTH, initial_indent="# ", subsequent_indent="#   ")
            yield f"{field.name} = {_scalar(item, _hints(type(value))[field.name], (*path, field.name))}"
    for name, item in nested:
        inner = (*path, name)
        header = ".".join(inner)
        if is_dataclass(item):
            yield f"\n[{header}]"
            yield from _table(item, inner, (*place, name), remarks)
        else:
            for number, row in enumerate(item):
                yield f"\n[[{header}]]"
                yield from _table(row, inner, (*place, name, str(number)), remarks)


def _is_rows(item: Any) -> bool:
    return isinstance(item, tuple) and bool(item) and is_dataclass(item[0])


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
        return _string(item, _optional(kind)[1], path)
    if isinstance(item, tuple):
        return "[" + ", ".join(_scalar(part, Any, path) for part in item) + "]"
    raise ConfigError(f"{_key(path)} is a {type(item).__name__}, which a recipe cannot hold.")


def _string(text: str, optional: bool, path: tuple[str, ...]) -> str:
    if optional and text == NONE:
        raise ConfigError(f'{_key(path)} cannot be the text "{NONE}", because that means that it is absent.')
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{_key(path)} holds text that is not valid Unicode.") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# --- reading -------------------------------------------------------------------------------------


def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _optional(kind: Any) -> tuple[Any, bool]:
    """The type without `None`, and whether `None` was in it."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [part for part in get_args(kind) if part is not type(None)]
        if len(rest) == 1:
            return rest[0], True
    return kind, False


def _from_table(cls: Any, data: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    hints, known = _hints(cls), {field.name: field for field in fields(cls)}
    for key in data:
        _require(key, known, path)
    given = {key: _value(hints[key], item, (*path, key)) for key, item in data.items()}
    absent = [name for name, field in known.items() if name not in given and _required(field)]
    if absent:
        raise ConfigError(f"{_key((*path, absent[0]))} is missing, and it has no default.")
    return cls(**given)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _require(key: str, known: Iterable[str], path: tuple[str, ...]) -> None:
    names = list(known)
    if key in names:
        return
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    hint = f"did you mean {_key((*path, near[0]))}?" if near else f"valid here: {', '.join(sorted(names))}."
    raise ConfigError(f"There is no key {_key((*path, key))}; {hint}")


def _value(kind: Any, item: Any, path: tuple[str, ...]) -> Any:
    kind, optional = _optional(kind)
    if optional and item == NONE:
        return None
    if is_dataclass(kind):
        if isinstance(item, Mapping):
            return _from_table(kind, item, path)
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
    raise _wrong(path, item, kind, optional)


def _items(kind: Any, item: Any, path: tuple[str, ...]) -> tuple[Any, ...]:
    parts = get_args(kind)
    if not isinstance(item, list | tuple):
        raise _wrong(path, item, kind, False)
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_value(parts[0], part, (*path, str(i))) for i, part in enumerate(item))
    if len(parts) != len(item):
        raise _wrong(path, item, kind, False)
    return tuple(_value(part, one, (*path, str(i))) for i, (part, one) in enumerate(zip(parts, item, strict=True)))


def _wrong(path: tuple[str, ...], item: Any, kind: Any, optional: bool) -> ConfigError:
    given = repr(item) if isinstance(item, str) else json.dumps(item, default=str)
    return ConfigError(f"{_key(path)} must be {_words(kind)}{' or none' if optional else ''}, but {given:.80} was given.")


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        many = len(parts) == 2 and parts[1] is Ellipsis
        return f"a list, each item {_words(parts[0])}" if many else f"a list of {len(parts)} items"
    if is_dataclass(kind):
        return "a table with " + ", ".join(field.name for field in fields(kind))
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(kind, str(kind))


def _key(path: tuple[str, ...]) -> str:
    return ".".join(path)


# --- overriding ----------------------------------------------------------------------------------


def _set(value: Any, changes: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> Any:
    """A dataclass, or a tuple of them, with these fields in it changed; keys are relative to it."""
    if () in changes:
        raise ConfigError(f"{_key(path)} is {_words(type(value))}: set one of these, as in {_key(path)}.{fields(value)[0].name}.")
    inside: dict[str, dict[tuple[str, ...], str]] = {}
    for (head, *tail), text in changes.items():
        inside.setdefault(head, {})[tuple(tail)] = text
    if isinstance(value, tuple):
        for head in inside:
            _require(head, [str(i) for i in range(len(value))], path)
        return tuple(_set(item, inside[str(i)], (*path, str(i))) if str(i) in inside else item for i, item in enumerate(value))
    for head in inside:
        _require(head, [field.name for field in fields(value)], path)
    return replace(value, **{head: _field(value, head, rest, (*path, head)) for head, rest in inside.items()})


def _field(value: Any, name: str, changes: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> Any:
    kind, optional = _optional(_hints(type(value))[name])
    current, deeper = getattr(value, name), {key: text for key, text in changes.items() if key}
    if () in changes:
        current = _parse(kind, optional, changes[()], path)
    if not deeper:
        return current
    if current is None and is_dataclass(kind):
        current = _from_table(kind, {}, path)
    if not is_dataclass(current) and not _is_rows(current):
        raise ConfigError(f"{_key(path)} is {_words(kind)} and has no key {_key(next(iter(deeper)))} in it.")
    return _set(current, deeper, path)


def _parse(kind: Any, optional: bool, text: str, path: tuple[str, ...]) -> Any:
    if optional and text == NONE:
        return None
    if is_dataclass(kind):
        raise ConfigError(f"{_key(path)} is {_words(kind)}: set one of these, as in {_key(path)}.{fields(kind)[0].name}.")
    if get_origin(kind) is tuple:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        inner = get_args(kind)
        kinds = [inner[0]] * len(parts) if inner[1:] == (Ellipsis,) else list(inner)
        if len(kinds) != len(parts):
            raise _wrong(path, text, kind, optional)
        return tuple(_parse(one, False, part, path) for one, part in zip(kinds, parts, strict=True))
    if get_origin(kind) is Literal:
        for choice in get_args(kind):
            if str(choice) == text:
                return choice
    if kind is bool and text in ("true", "false"):
        return text == "true"
    if kind is str:
        return text
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    raise _wrong(path, text, kind, optional)
