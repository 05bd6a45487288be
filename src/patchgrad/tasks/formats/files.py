"""Rows in files: JSON lines, JSON, either compressed, Parquet; and from the hub, through `datasets`."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchgrad.errors import MissingDependency, Refuse, TaskError, one_of_many, stop
from patchgrad.tasks.archive import write_whole
from patchgrad.values.text import BOM, loaded, parsed, whole

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
_META = b"patchgrad"
_ROWS_AT_ONCE = 256
_UNREADABLE = (OSError, ValueError, NotImplementedError, OverflowError)
"""What Arrow raises where a file, a part of it or a value is damaged, or of a kind that it cannot read."""

Placed = tuple[str, dict[str, Any]]


def read(source: str, refuse: Refuse = stop) -> Iterator[Placed]:
    """Rows, each with its place: `("rows.jsonl line 3", {...})`; a row, or one of several files, that cannot be read goes to `refuse`.

    `source` is a file, a folder of Parquet files, or `OWNER/NAME` of a data set on the hub, with `:SPLIT` where it has several.
    """
    path = Path(source)
    if path.is_dir():
        parts = [part for part in beneath(path, refuse) if part.name.endswith(".parquet")]
        if not parts:
            raise TaskError(f"{source} is a folder without Harbor tasks (task.toml, instruction.md) and without Parquet files.")
        for part in parts:
            with one_of_many(refuse):
                yield from _parquet(part, refuse)
    elif path.exists():
        yield from _file(path, refuse)
    elif re.fullmatch(r"[\w.-]+/[\w.-]+(:[\w.-]+)?", source) and not source.endswith(SUFFIXES):
        yield from _hub(source)
    else:
        raise TaskError(f"{source} does not exist: name a file ({', '.join(SUFFIXES)}), a folder, or OWNER/NAME of a data set.")


def beneath(folder: Path, refuse: Refuse = stop) -> list[Path]:
    """All files and links in a folder and in those in it, sorted; a folder that cannot be read goes to `refuse`, and the others do not."""

    def unreadable(error: OSError) -> None:
        with one_of_many(refuse):
            raise TaskError(f"{error.filename} cannot be read ({error.strerror}): look at its permissions.") from error

    found = []
    for top, folders, names in os.walk(folder, onerror=unreadable):
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        found += [Path(top, name) for name in (*names, *links)]
    return sorted(found)


def write(rows: Sequence[Mapping[str, Any]], target: Path) -> None:
    """Write all rows, whole or not at all, in the form that the name ends in; `TaskError` for another one."""
    if target.name.endswith(".parquet"):
        _write_parquet(rows, target)
        return
    if not target.name.endswith(SUFFIXES):
        raise TaskError(f"{target} has an ending that is none of {', '.join(SUFFIXES)}: choose one of them.")
    if target.name.removesuffix(".gz").endswith(".json"):
        text = json.dumps(list(rows), indent=1) + "\n"
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows)
    data = text.encode()
    write_whole(target, gzip.compress(data, mtime=0) if target.name.endswith(".gz") else data)


def _file(path: Path, refuse: Refuse) -> Iterator[Placed]:
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        yield from _parquet(path, refuse)
        return
    try:
        data = path.read_bytes()
        data = (gzip.decompress(data) if path.name.endswith(".gz") else data).removeprefix(BOM)
    except (OSError, EOFError, zlib.error) as error:
        raise TaskError(f"{path} cannot be read ({error}): fetch it again.") from error
    take: Callable[[Any], Any]
    rows: list[tuple[str, Any]]
    if name.endswith((".jsonl", ".ndjson")):
        take, rows = parsed, [(f"{path} line {number}", line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    elif name.endswith(".json"):
        content = _value(str(path), loaded, data)
        take, rows = whole, [(f"{path} row {n}", row) for n, row in enumerate(content if isinstance(content, list) else [content], 1)]
    else:
        raise TaskError(f"{path} has an ending that is none of {', '.join(SUFFIXES)}: rename it to what it is.")
    for place, row in rows:
        with one_of_many(refuse):
            yield _placed(place, _value(place, take, row))


def _value(place: str, take: Callable[[Any], Any], text: object) -> Any:
    try:
        return take(text)
    except ValueError as error:
        raise TaskError(f"{place} is no JSON that can be read ({error}).") from error


def _placed(place: str, row: object) -> Placed:
    if not isinstance(row, dict):
        raise TaskError(f"{place} is no object with columns.")
    return place, row


def _parquet(path: Path, refuse: Refuse) -> Iterator[Placed]:
    """The rows of a Parquet file, which are kept in groups: one group that cannot be read takes no other with it."""
    try:
        file = _pyarrow("parquet").ParquetFile(path)
        told = json.loads((file.schema_arrow.metadata or {}).get(_META, b"{}"))
    except _UNREADABLE as error:
        raise TaskError(f"{path} is no readable Parquet file ({error}): fetch it again.") from error
    with file:
        first = 0
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            with one_of_many(refuse):
                for at, row in _of_group(f"{path} rows {first + 1} to {first + size}", file, group):
                    with one_of_many(refuse):
                        yield _from_parquet(f"{path} row {first + at + 1}", row, told, first + at)
            first += size


def _of_group(place: str, file: Any, group: int) -> Iterator[tuple[int, Any]]:
    """The rows of a group, counted from 0, each as Arrow has it: what it holds may be nothing that Python has."""
    at = 0
    try:
        for batch in file.iter_batches(_ROWS_AT_ONCE, row_groups=[group]):
            yield from enumerate((batch.slice(number, 1) for number in range(len(batch))), at)
            at += len(batch)
    except _UNREADABLE as error:
        raise TaskError(f"{place} cannot be read from the {at + 1}th of them on ({error}): fetch the file again.") from error


def _from_parquet(place: str, found: Any, told: Mapping[str, Any], at: int) -> Placed:
    try:
        (row,) = found.to_pylist()
    except _UNREADABLE as error:
        raise TaskError(f"{place} has a value that cannot be read ({error}).") from error
    try:
        plain: dict[str, Any] = json.loads(json.dumps(row, default=str))  # times become their text
        for name in told.get("json", ()):
            plain[name] = None if plain[name] is None else parsed(plain[name].encode())
        return place, {name: plain[name] for name in (told["orders"][told["order"][at]] if "order" in told else plain)}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise TaskError(f"{place} is not as it was written ({error}): export the set again.") from error


def _write_parquet(rows: Sequence[Mapping[str, Any]], target: Path) -> None:
    """Strings, numbers and lists have their own types, as on the hub; what Arrow would change is JSON text, and the schema says so."""
    pa, parquet = _pyarrow(""), _pyarrow("parquet")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns, as_text = [], []
    for name in names:
        values = [row.get(name) for row in rows]
        array = _array(pa, values)
        if array is None:
            as_text.append(name)
            array = pa.array([json.dumps(row[name]) if name in row else None for row in rows], pa.string())
        columns.append(array)
    orders = list(dict.fromkeys(tuple(row) for row in rows))
    told: dict[str, Any] = {"json": as_text}
    if orders != [tuple(names)]:
        told |= {"orders": orders, "order": [orders.index(tuple(row)) for row in rows]}
    table = pa.table(columns, schema=pa.schema([(name, array.type) for name, array in zip(names, columns, strict=True)]))
    sink = pa.BufferOutputStream()
    parquet.write_table(table.replace_schema_metadata({_META: json.dumps(told).encode()}), sink)
    write_whole(target, sink.getvalue().to_pybytes())


def _array(pa: Any, values: list[Any]) -> Any:
    """The values in Arrow's own type, or nothing where they would not come back the same."""
    try:
        array = pa.array(values)
        same = json.dumps(array.to_pylist()) == json.dumps(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return array if same and "struct<>" not in str(array.type) else None  # Parquet has no structure without fields


def _hub(source: str) -> Iterator[Placed]:
    name, _, split = source.partition(":")
    try:
        datasets = importlib.import_module("datasets")
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"datasets is not installed, and {name} is no file here: pip install datasets, or name a folder of its Parquet files."
        ) from error
    try:
        found = datasets.load_dataset(name)
    except Exception as error:  # the library raises whatever its own libraries do
        raise TaskError(
            f"The data set {name} cannot be fetched ({type(error).__name__}: {error}): look at its name and the network."
        ) from error
    if not split and len(found) > 1 and "test" not in found:
        raise TaskError(f"The data set {name} has several splits: name one, as in {name}:{next(iter(found))} ({', '.join(found)}).")
    split = split or ("test" if "test" in found else next(iter(found)))
    if split not in found:
        raise TaskError(f"The data set {name} has no split {split}: choose from {', '.join(found)}.")
    for number, row in enumerate(found[split], 1):
        yield f"{source} row {number}", json.loads(json.dumps(row, default=str))


def _pyarrow(part: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingDependency("pyarrow is not installed, and Parquet needs it: pip install 'patchgrad[tasks]'.") from error
    return pyarrow.parquet if part else pyarrow
