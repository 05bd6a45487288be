"""Rows of foreign data sets, as far as grading a recorded run needs them: the id, the two lists of tests, and the reader of the log.

SWE-bench and Verified hold the lists as JSON in a string, SWE-smith and SWE-rebench as lists.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgrad.errors import Refuse, TaskError, one_of_many, stop
from patchgrad.grading.logs import reader_name
from patchgrad.values import Checks
from patchgrad.values.text import BOM, loaded, parsed, whole

_NOTHING: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Row:
    """What a recorded run of one problem is held against. `gold` is the row's own patch, in SWE-smith's rows the one that broke it."""

    id: str
    checks: Checks
    gold: str = ""


def read_rows(path: Path, refuse: Refuse = stop) -> dict[str, Row]:
    """The rows of a `.jsonl` file, or of a `.json` file with a list, a single row, or rows by id; `.gz` likewise.

    `TaskError` for a file of another form; what is wrong with one row goes to `refuse`. Of two rows with one id neither is taken. A reader
    that there is not is refused only when its row is graded.

    `{"instance_id": "a__b-1", "repo": "django/django", "FAIL_TO_PASS": "[\\"t\\"]", ...}` -> `Row("a__b-1", Checks(("t",), ...))`.
    """
    found: dict[str, Row] = {}
    twice: set[str] = set()
    for place, item in read_objects(path, "rows", refuse):
        with one_of_many(refuse):
            row = _row(item, place)
            if row.id in found:
                twice.add(row.id)
                raise TaskError(f"{path} has more than one row {row.id}: an id may stand for one problem only.")
            found[row.id] = row
    return {name: row for name, row in found.items() if name not in twice}


def read_objects(path: Path, what: str, refuse: Refuse = stop) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file with where each stands: `("rows.jsonl, line 3", {...})`. Objects by id get theirs as `instance_id`.

    `TaskError` for a file that cannot be read or has none of `what` they are; what is wrong with one of several goes to `refuse`.
    """
    read: Callable[[Any], Any]
    data = _bytes(path).removeprefix(BOM)
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        read = parsed
        entries = [(f"{path}, line {number}", line, _NOTHING) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    else:
        read, entries = whole, _entries(path, _json(data, str(path), loaded))
    if not entries:
        raise TaskError(f"{path} has no {what}: name a file that has some.")
    for place, item, own in entries:
        with one_of_many(refuse):
            yield place, _json(own, place, whole) | _object(_json(item, place, read), place)


def _entries(path: Path, content: Any) -> list[tuple[str, Any, dict[str, str]]]:
    """Place, content, and what else is known of it."""
    if isinstance(content, dict) and "instance_id" not in content:
        return [(f"{path}, {key}", item, {"instance_id": key}) for key, item in content.items()]
    items = content if isinstance(content, list) else [content]
    return [(f"{path}, entry {number}", item, _NOTHING) for number, item in enumerate(items, 1)]


def read_text(path: Path) -> str:
    """A file of text, also if it was packed by gzip; `TaskError` where it cannot be read. Bytes that are no UTF-8 are replaced."""
    return _bytes(path).decode(errors="replace")


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise TaskError(f"{path} cannot be read ({reason}): name a file that exists and holds text.") from error


def _json(text: Any, place: str, read: Callable[[Any], Any] = parsed) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise TaskError(f"{place} is no JSON that can be read ({error}): mend it or leave it out.") from error


def _object(item: Any, place: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise TaskError(f"{place} holds no JSON object: every entry has to be one, with an instance_id.")
    return item


def _row(item: Mapping[str, Any], place: str) -> Row:
    name = item.get("instance_id")
    if not isinstance(name, str) or not name:
        raise TaskError(f"{place} has no instance_id: give it the id of its problem.")
    if item.get("eval_type", "pass_and_fail") != "pass_and_fail":
        raise TaskError(f"{place} is graded by {item['eval_type']}, where a test that is not told of passed: leave {name} out.")
    checks = Checks(_tests(item, "FAIL_TO_PASS", place), _tests(item, "PASS_TO_PASS", place), parser=reader_name(item))
    return Row(name, checks, str(item.get("patch") or ""))


def _tests(item: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    tests = item.get(key)
    if isinstance(tests, str):
        tests = _json(tests.encode(), f"{place}, {key}")
    if not isinstance(tests, list) or not all(isinstance(test, str) for test in tests):
        raise TaskError(f"{place} has no {key} with names of tests: give it a list, or a list as JSON in a string.")
    return tuple(tests)
