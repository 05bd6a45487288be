"""Fields set from the words of a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin

from patchgrad.config.kinds import NONE, Inline, dotted, hints, is_inline, is_rows, is_table, known, optional, words, wrong
from patchgrad.config.reading import from_table
from patchgrad.config.writing import leaves
from patchgrad.errors import ConfigError

T = TypeVar("T")
Changes = Mapping[tuple[str, ...], str]


def override(value: T, changes: Mapping[str, str]) -> T:
    """A copy with some fields set from text, each read as its field's type, all at once: only the outcome has to be valid.

    `{"stages.0.lr": "1e-5"}` reaches into a tuple of dataclasses; `{"betas": "0.9,0.95"}` gives a tuple of numbers;
    `{"warmup.steps": "5"}` on a table that is `None` starts from the table's defaults.
    """
    changed: T = _set(value, {tuple(key.split(".")): text for key, text in changes.items()}, ())
    return changed


def _set(value: Any, changes: Changes, path: tuple[str, ...]) -> Any:
    """A dataclass, or a tuple of them, with these fields in it changed; keys are relative to it."""
    if isinstance(value, Inline):
        start = value.read(changes[()], dotted(path)) if () in changes else value
        return start.having({dotted(key): text for key, text in changes.items() if key}, dotted(path))
    if () in changes:
        raise ConfigError(f"{dotted(path)} is {words(type(value))}: set one of these, as in {dotted(path)}.{fields(value)[0].name}.")
    inside: dict[str, dict[tuple[str, ...], str]] = {}
    for (head, *tail), text in changes.items():
        inside.setdefault(head, {})[tuple(tail)] = text
    if isinstance(value, tuple):
        for head in inside:
            known(head, [str(i) for i in range(len(value))], path)
        return tuple(_set(item, inside[str(i)], (*path, str(i))) if str(i) in inside else item for i, item in enumerate(value))
    for head in inside:
        known(head, [field.name for field in fields(value)], path, partial(leaves, value))
    return replace(value, **{head: _field(value, head, rest, (*path, head)) for head, rest in inside.items()})


def _field(value: Any, name: str, changes: Changes, path: tuple[str, ...]) -> Any:
    kind, absent = optional(hints(type(value))[name])
    current, deeper = getattr(value, name), {key: text for key, text in changes.items() if key}
    if () in changes:
        current = _parse(kind, absent, changes[()], path)
    if not deeper:
        return current
    if current is None and is_dataclass(kind) and not is_inline(kind):
        current = from_table(kind, {}, path)
    parts = isinstance(current, tuple) and bool(current) and isinstance(current[0], Inline)
    if not (parts or isinstance(current, Inline) or is_table(current) or is_rows(current)):
        raise ConfigError(f"{dotted(path)} is {words(kind)} and has no key {dotted(next(iter(deeper)))} in it.")
    return _set(current, deeper, path)


def _parse(kind: Any, absent: bool, text: str, path: tuple[str, ...]) -> Any:
    if absent and text == NONE:
        return None
    if is_inline(kind):
        return kind.read(text, dotted(path))
    if is_dataclass(kind):
        raise ConfigError(f"{dotted(path)} is {words(kind)}: set one of these, as in {dotted(path)}.{fields(kind)[0].name}.")
    if get_origin(kind) is tuple:
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        inner = get_args(kind)
        kinds = [inner[0]] * len(parts) if inner[1:] == (Ellipsis,) else list(inner)
        if len(kinds) != len(parts):
            raise wrong(path, text, kind, absent)
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
    raise wrong(path, text, kind, absent)
