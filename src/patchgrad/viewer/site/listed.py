"""The attempts of a run as columns, for a list of a hundred thousand.

`{"count": 2, "columns": {"task": {"values": ["a"], "index": [0, 0]}, "reward": [1.0, 0.0], ...}}`: a column of few different texts names
each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from patchgrad.errors import Refused
from patchgrad.store import Run

TEXTS = ("task", "phase", "stop", "fault")
NUMBERS = ("iteration", "policy_version", "reward", "turns", "malformed", "action_tokens", "context_tokens", "seconds")
COLUMNS = ("attempt", *TEXTS, "solved", *NUMBERS)
CHUNK = 10_000
"""Attempts that are sent together, at least: a table is never cut."""


def chunks(run: Run) -> list[list[Path]]:
    """The tables of a run, those together that are sent together. More attempts only add to the last ones."""
    import pyarrow
    import pyarrow.parquet

    found: list[list[Path]] = []
    count = CHUNK
    for path in run.rollouts.files():
        if count >= CHUNK:
            found.append([])
            count = 0
        found[-1].append(path)
        with suppress(OSError, pyarrow.ArrowException):
            count += pyarrow.parquet.read_metadata(path).num_rows
    return found


def listed(paths: Sequence[Path]) -> dict[str, Any]:
    """The attempts of these tables; one that cannot be read is left out."""
    import pyarrow
    import pyarrow.parquet

    tables = []
    for path in paths:
        try:
            tables.append(pyarrow.parquet.read_table(path, columns=list(COLUMNS)))
        except (OSError, pyarrow.ArrowException):
            continue
    if not tables:
        return {"count": 0, "columns": {name: [] for name in COLUMNS}}
    table = pyarrow.concat_tables(tables)
    return {"count": table.num_rows, "columns": {name: _column(table.column(name), name in TEXTS) for name in COLUMNS}}


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
    """What there is to see: of each run its name, its table of policies, and how many chunks its list has."""
    return {"runs": [_overview(run) for run in runs]}


def _overview(run: Run) -> dict[str, Any]:
    reports = [
        {"name": one.name, "pass_at_1": _finite(one.pass_at_1.mean), "error": _finite(one.pass_at_1.error), "tasks": one.tasks}
        for one in run.results.reports()
    ]
    return {
        "name": run.folder.resolve().name,
        "reports": reports,
        "iterations": len(run.results.metrics(Refused())),
        "chunks": len(chunks(run)),
    }


def _finite(value: float) -> float | None:
    return value if value == value and abs(value) != float("inf") else None
