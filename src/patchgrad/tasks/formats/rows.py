"""A row of somebody's data set and a member of ours, each from the other, with nothing lost either way.

A format says which columns mean what: `Format.read` makes a member from them, `Format.write` makes them from a member. What the two do
not give back by themselves is kept beside: a column that no field holds, or that was written in another way, becomes the tag
`column.NAME` (JSON text), the order of the columns `columns.FORMAT`; a field that no column holds becomes the column `patchgrad_FIELD`
(JSON text). So importing and exporting a row gives the row again, and exporting and importing a member gives the member again.

    row  {"instance_id": "a__b-1", "difficulty": "easy", ...}  ->  tags {"column.difficulty": '"easy"', "columns.swebench": '[...]'}
    tags {"level": "hint"}                  ->  row  {"instance_id": "a__b-1", ..., "patchgrad_tags": '{"level": "hint"}'}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchgrad.errors import TaskError
from patchgrad.patches import outside
from patchgrad.tasks.evaluation_sets import is_evaluation
from patchgrad.tasks.formats import fields
from patchgrad.tasks.sets import Member

OWN = "patchgrad_"
KEPT = "column."
ORDER = "columns."


@dataclass(frozen=True, slots=True)
class Row:
    """One row and where it stands, `rows.jsonl line 3`, so that what is wrong with it can be said."""

    columns: Mapping[str, Any]
    place: str

    def text(self, name: str) -> str:
        """The text in a column, empty where it is `None` or there is no such column; `TaskError` for anything else."""
        value = self.columns.get(name)
        if value is not None and not isinstance(value, str):
            raise self.broken(name, f"holds {_short(value)}, not text")
        return value or ""

    def required(self, name: str) -> str:
        """Text that a row is nothing without."""
        text = self.text(name)
        if not text:
            raise self.broken(name, "is missing or empty")
        return text

    def patch(self, name: str) -> str:
        """A patch all of whose paths are below the repository."""
        text = self.text(name)
        aim = outside(text)
        if aim is not None:
            raise self.broken(name, f"holds a patch that reaches outside of the repository, to {aim!r}: it is refused")
        return text

    def tests(self, name: str) -> tuple[str, ...]:
        """Names of tests, given as a list, or as the JSON text of one: `'["t.py::a"]'` -> `("t.py::a",)`."""
        value = self.columns.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else []
            except ValueError as error:
                raise self.broken(name, f"is neither a list of tests nor the JSON text of one ({error})") from error
        if value is not None and (not isinstance(value, list) or not all(isinstance(test, str) for test in value)):
            raise self.broken(name, f"holds {_short(value)}, not a list of tests")
        return tuple(value or ())

    def table(self, name: str) -> Mapping[str, Any]:
        """An object, or the JSON text of one; empty where there is none."""
        value = self.columns.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value) if value.strip() else {}
            except ValueError as error:
                raise self.broken(name, f"is neither an object nor the JSON text of one ({error})") from error
        if value is not None and not isinstance(value, dict):
            raise self.broken(name, f"holds {_short(value)}, not an object")
        return value or {}

    def broken(self, name: str, says: str) -> TaskError:
        """The one sentence about a column."""
        return TaskError(f"{self.place}: the column {name} {says}.")


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of rows. `recognises` is asked for the columns of a row; `evaluation` says that these rows are for measuring, not training."""

    name: str
    title: str
    recognises: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Row], Member]
    write: Callable[[Member], dict[str, Any]]
    evaluation: bool = False


def to_member(format: Format, row: Row, digests: Mapping[str, str] | None = None, split: str = "") -> Member:
    """The member that a row describes, with every column kept; `TaskError`, one sentence with place and column, for a broken row.

    `digests` tells the digest of images that the row has only a name for; `split` takes the place of the row's own.
    """
    plain = {name: value for name, value in row.columns.items() if not name.startswith(OWN)}
    own = {name.removeprefix(OWN): value for name, value in row.columns.items() if name.startswith(OWN) and value is not None}
    member = digested(fields.changed(_plainly(format, Row(plain, row.place), split), own, row.place), digests)
    if "tags" not in own:
        return member
    back = to_row(format, member)
    added = [name for name in plain if name not in back or _json(plain[name]) != _json(back[name])]
    if f"{ORDER}{format.name}" not in member.task.tags and any(f"{KEPT}{name}" in member.task.tags for name in added):
        raise row.broken(added[0], "was added to a row that came from another format: take it out")
    return _kept(format, member, plain, added) if added else member


def to_row(format: Format, member: Member) -> dict[str, Any]:
    """The row of a member: that which was imported, or one with `patchgrad_` columns for what the format has no place for.

    What an import added to a row is told as well: an image's digest behind its name, another split in such a column.
    """
    tags = member.task.tags
    row = format.write(member)
    if f"{ORDER}{format.name}" in tags:
        kept = {name: json.loads(tags[f"{KEPT}{name}"]) for name in _order(format, tags) if f"{KEPT}{name}" in tags}
        row = {name: kept[name] if name in kept else row[name] for name in _order(format, tags) if name in kept or name in row}
    said, found = fields.of(member), fields.of(_plainly(format, Row(row, member.task.id), ""))
    return row | {f"{OWN}{name}": _json(value) for name, value in said.items() if not fields.same(found[name], value)}


def _plainly(format: Format, row: Row, split: str) -> Member:
    """The member of a row without columns of ours."""
    member = _tagged(format, row, format.read(row), split)
    expected = format.write(member)
    different = [name for name, value in row.columns.items() if name not in expected or _json(value) != _json(expected[name])]
    return _kept(format, member, row.columns, different)


def _kept(format: Format, member: Member, plain: Mapping[str, Any], different: Sequence[str]) -> Member:
    """With those columns as tags that the member's fields do not give back, and with the order of all."""
    kept = {f"{KEPT}{name}": _json(plain[name]) for name in different}
    return fields.with_tags(member, **kept, **{f"{ORDER}{format.name}": _json(list(plain))})


def _order(format: Format, tags: Mapping[str, str]) -> list[str]:
    order: list[str] = json.loads(tags[f"{ORDER}{format.name}"])
    return order


def _tagged(format: Format, row: Row, member: Member, split: str) -> Member:
    """What every imported task is told apart by: its source, its package, and whether it may be trained on."""
    tags = dict(member.task.tags)
    measured = format.evaluation and not split
    if measured or is_evaluation(member.task.id) or is_evaluation(tags.get("package", "")):
        split = "evaluation"
    own = row.columns.get("split")
    given = {"source": format.name, "level": "report", "split": split or (own if isinstance(own, str) else "") or "train"}
    for tag, names in (("created_at", ("created_at",)), ("licence", ("license_name", "license", "licence"))):
        value = next((row.columns[name] for name in names if row.columns.get(name)), None)
        if value is not None:
            given[tag] = value if isinstance(value, str) else _json(value)
    return fields.with_tags(member, **{**given, **tags})


def digested(member: Member, digests: Mapping[str, str] | None) -> Member:
    """The member with its image's digest, where the image has none yet and `digests` gives it by the image's name."""
    repository = member.task.repository
    if repository.kind != "image" or repository.digest or repository.location not in (digests or {}):
        return member
    repository = replace(repository, digest=(digests or {})[repository.location])
    return replace(member, task=replace(member.task, repository=repository))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"{text[:57]}..."
