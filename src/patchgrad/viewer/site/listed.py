"""The attempts of a run as columns, for a list of a hundred thousand.

`{"count": 2, "columns": {"task": {"values": ["a"], "index": [0, 0]}, "reward": [1.0, 0.0], ...}}`: a column of few different texts names
each once. So does `failures`, the kinds of failed turns of each attempt: `{"values": ["timeout"], "index": [[0], []]}`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from patchgrad.store import Run
from patchgrad.values import digest

TEXTS = ("task", "phase", "stop", "fault")
NUMBERS = ("iteration", "policy_version", "reward", "turns", "malformed", "action_tokens", "context_tokens", "seconds")
COLUMNS = ("attempt", *TEXTS, "solved", *NUMBERS)
FAILED = ("conversation.list.element.malformed", "conversation.list.element.failure")
NONE = '"replayed": 0}'
CHUNK = 10_000
FIRST = 1000
"""Attempts that are sent together, at least: a table is never cut. The first ones are few, so that they are soon there."""


def chunks(run: Run) -> list[list[Path]]:
    """The tables of a run, those together that are sent together. A new table may move those that are behind it by name."""
    found: list[list[Path]] = []
    count = CHUNK
    for path in run.rollouts.files():
        if count >= (FIRST if len(found) == 1 else CHUNK):
            found.append([])
            count = 0
        found[-1].append(path)
        with suppress(OSError):
            count += _rows(path, path.stat().st_mtime_ns)
    return found


@lru_cache(maxsize=10_000)
def _rows(path: Path, _: int) -> int:
    """How many a table of that age has; none where it cannot be read."""
    import pyarrow
    import pyarrow.parquet

    with suppress(OSError, pyarrow.ArrowException):
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    return 0


def listed(paths: Sequence[Path]) -> dict[str, Any]:
    """The attempts of these tables; one that cannot be read is left out."""
    import pyarrow
    import pyarrow.parquet

    tables = []
    for path in paths:
        try:
            with pyarrow.parquet.ParquetFile(path) as file:  # which reads parts of a list alone, as `read_table` does not
                tables.append(file.read(columns=[*COLUMNS, "trajectory", *FAILED]))
        except (OSError, pyarrow.ArrowException):
            continue
    if not tables:
        return {"count": 0, "columns": {name: [] for name in (*COLUMNS, "failures")}}
    table = pyarrow.concat_tables(tables)
    columns = {name: _column(table.column(name), name in TEXTS) for name in COLUMNS}
    return {"count": table.num_rows, "columns": {**columns, "failures": _failures(table)}}


def _failures(table: Any) -> dict[str, Any]:
    """The kinds of failed turns of each attempt, as its table has them; turns that it replays of another attempt are left out."""
    import pyarrow.compute

    turns = table.column("conversation").combine_chunks()
    owners = pyarrow.compute.list_parent_indices(turns)
    said = pyarrow.compute.list_flatten(turns)
    kinds = pyarrow.compute.coalesce(said.field("malformed"), said.field("failure"))
    places = pyarrow.compute.indices_nonzero(pyarrow.compute.is_valid(kinds))
    first, replayed = dict[int, int](), replays(table.column("trajectory"))
    for place, owner in enumerate(owners.to_pylist() if replayed else ()):
        first.setdefault(owner, place)
    values, index = dict[str, int](), [set[int]() for _ in range(table.num_rows)]
    for place, owner, kind in zip(*(one.to_pylist() for one in (places, owners.take(places), kinds.take(places))), strict=True):
        if place - first.get(owner, 0) >= replayed.get(owner, 0):
            index[owner].add(values.setdefault(kind, len(values)))
    return {"values": list(values), "index": [sorted(one) for one in index]}


def replays(trajectories: Any) -> dict[int, int]:
    """Of the attempts that began in another one the number of turns that they replay, by place in the table.

    Most begin at the beginning, and the end of the text tells that: it is cheaper than to read each.
    """
    import pyarrow.compute

    text = trajectories.combine_chunks()
    places = pyarrow.compute.indices_nonzero(pyarrow.compute.invert(pyarrow.compute.ends_with(text, NONE)))
    found = zip(places.to_pylist(), map(json.loads, text.take(places).to_pylist()), strict=True)
    return {place: int(told["replayed"]) for place, told in found if told.get("replayed")}


def _column(column: Any, few: bool) -> Any:
    if not few:
        return column.to_pylist()
    coded = column.combine_chunks().dictionary_encode()
    return {"values": coded.dictionary.to_pylist(), "index": coded.indices.to_pylist()}


def found(run: Run, words: str) -> list[str]:
    """Ids of the attempts in whose issue, patch, actions or observations this text stands, in any case."""
    import pyarrow.compute
    import pyarrow.parquet

    ids: list[str] = []
    for path in run.rollouts.files():
        try:
            table = pyarrow.parquet.read_table(path, columns=["attempt", "instruction", "submission", "conversation"])
        except (OSError, pyarrow.ArrowException):
            continue
        hit = _has(table.column("instruction"), words) | _has(table.column("submission"), words)
        turns = table.column("conversation").combine_chunks()
        owners = pyarrow.compute.list_parent_indices(turns).to_numpy(zero_copy_only=False)
        said = pyarrow.compute.list_flatten(turns)
        for part in ("text", "observation"):
            hit[owners[_has(said.field(part), words)]] = True
        ids += table.column("attempt").filter(pyarrow.array(hit)).to_pylist()
    return ids


def _has(column: Any, words: str) -> Any:
    import pyarrow.compute

    found = pyarrow.compute.match_substring(column, words, ignore_case=True).fill_null(False)
    return found.to_numpy(zero_copy_only=False).astype(bool)


def overview(runs: Sequence[Run]) -> dict[str, Any]:
    """What there is to see: of each run its name, its table of policies, and a mark of each chunk of its list."""
    return {"runs": [_overview(run) for run in runs]}


def _overview(run: Run) -> dict[str, Any]:
    reports = [{"name": one.name, "pass_at_1": _finite(one.pass_at_1.mean)} for one in run.results.reports()]
    return {
        "name": run.folder.resolve().name,
        "reports": reports,
        "chunks": [_mark(paths) for paths in chunks(run)],
    }


def _mark(paths: Sequence[Path]) -> str:
    """Another one where a chunk has other tables than before, or other attempts in them."""
    told = []
    for path in paths:
        with suppress(OSError):
            about = path.stat()
            told.append(f"{path.name} {about.st_size} {about.st_mtime_ns}")
    return digest(*told)[:16]


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None
