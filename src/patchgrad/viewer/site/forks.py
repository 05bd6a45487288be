"""Which attempts began in which: of each fork the attempt that it left and after how many turns, as far as the run's tables have them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from patchgrad.store import Run
from patchgrad.viewer.site.listed import replays

Node = dict[str, Any]

TABLES = 10_000
"""Those that stay read, so that one more table is read alone."""

SUFFIX = re.compile(r"\+\d+\.\d+$")
"""What a fork's id has behind that of the attempt that it left: `stage1/0/3/2+4.0` left `stage1/0/3/2` after four turns."""


def family(run: Run, attempt: str) -> list[Node]:
    """The attempts that began in one another, this one among them, oldest first; nothing where it is no fork and has none.

    `[{"id": "a/0", "parent": "", "left": 0, ...}, {"id": "a/0+4.0", "parent": "a/0", "left": 4, ...}]`. Where the attempt in which one
    began is not in the run, it has a name and no outcome.
    """
    return next((nodes for nodes in families(run) if any(node["id"] == attempt for node in nodes)), [])


def families(run: Run) -> list[list[Node]]:
    """All of them."""
    return _families(run.folder, len(run.rollouts.files()))


@lru_cache(maxsize=4)
def _families(folder: Path, tables: int) -> list[list[Node]]:
    """Those of a run that has so many tables."""
    paths = [(path, path.stat().st_mtime_ns) for path in Run.open(folder).rollouts.files()]
    if not any(_has(*path) for path in paths):  # in most runs nothing is forked, and names and outcomes are not read
        return []
    told = {node["id"]: dict(node) for path in paths for node in _read(*path)}
    left = {name: node for name, node in told.items() if node["left"]}
    found = dict[str, list[str]]()
    for name, node in left.items():
        node["parent"] = _parent(node, told)
        found.setdefault(node["parent"], []).append(name)
    roots = [name for name in found if name not in left]
    return [list(_below(root, told, found)) for root in roots]


def _parent(node: Node, told: Mapping[str, Node]) -> str:
    """The attempt that a fork left: its `origin` is where the first of a chain of forks began."""
    near = SUFFIX.sub("", node["id"])
    return near if near != node["id"] and near in told else str(node["origin"])


def _below(name: str, told: Mapping[str, Node], found: Mapping[str, list[str]]) -> Iterator[Node]:
    own = told.get(name, {"left": 0, "parent": "", "missing": True})
    yield {key: value for key, value in {"id": name, **own}.items() if key != "origin"}
    for child in sorted(found.get(name, ()), key=lambda one: (told[one]["left"], one)):
        yield from _below(child, told, found)


@lru_cache(maxsize=TABLES)
def _has(path: Path, _: int) -> bool:
    """Did an attempt of a table of that age begin in another one?"""
    import pyarrow
    import pyarrow.parquet

    with suppress(OSError, pyarrow.ArrowException):
        return bool(replays(pyarrow.parquet.read_table(path, columns=["trajectory"]).column("trajectory")))
    return False


@lru_cache(maxsize=TABLES)
def _read(path: Path, _: int) -> tuple[Node, ...]:
    """The attempts of a table of that age."""
    return tuple(_nodes(path))


def _nodes(path: Path) -> Iterator[Node]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path, columns=["attempt", "solved", "reward", "stop", "fault", "turns", "trajectory"])
    except (OSError, pyarrow.ArrowException):
        return
    begun = replays(table.column("trajectory"))
    texts = table.column("trajectory").take(pyarrow.array(np.array(list(begun), np.int64))).to_pylist()
    origins = {place: str(json.loads(text).get("origin", "")) for place, text in zip(begun, texts, strict=True)}
    for place, row in enumerate(table.drop_columns(["trajectory"]).to_pylist()):
        yield {"id": row.pop("attempt"), "parent": "", "left": begun.get(place, 0), "origin": origins.get(place, ""), **row}
