"""Tables whose keys have other names now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """What a table holds by dotted names: `{"stages": [{"lr": 1.0}]}` -> `{"stages.0.lr": 1.0}`."""
    found: dict[str, Any] = {}
    for key, item in table.items():
        rows = isinstance(item, list) and bool(item) and all(isinstance(row, Mapping) for row in item)
        inner = item if isinstance(item, Mapping) else {str(i): row for i, row in enumerate(item)} if rows else {}
        found |= {f"{key}.{name}": leaf for name, leaf in flat(inner).items()} if inner else {key: item}
    return found


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The table again: `{"stages.0.lr": 1.0}` -> `{"stages": [{"lr": 1.0}]}`."""
    table: dict[str, Any] = {}
    for key, leaf in leaves.items():
        *path, name = key.split(".")
        inner = table
        for part in path:
            inner = inner.setdefault(part, {})
        inner[name] = leaf
    return {key: _listed(item) for key, item in table.items()}


def _listed(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    inner = {key: _listed(part) for key, part in item.items()}
    return list(inner.values()) if inner and all(key.isdigit() for key in inner) else inner


def renamed(key: str, names: Mapping[str, str]) -> str | None:
    """What a dotted key is called now, or none where it is not among those that were renamed.

    `*` stands for the number of a row, a name that ends in a dot for all below it: with `{"stages.*.turns": "stages.*.limits.turns"}`
    `stages.1.turns` is `stages.1.limits.turns`.
    """
    parts = key.split(".")
    numbers = [part for part in parts if part.isdigit()]
    kind = ".".join("*" if part.isdigit() else part for part in parts)
    above = (".".join(kind.split(".")[:count]) + "." for count in range(len(parts) - 1, 0, -1))
    old = kind if kind in names else next((name for name in above if name in names), None)
    if old is None:
        return None
    now = names[old] + kind[len(old) :]
    for number in numbers:
        now = now.replace("*", number, 1)
    return now
