"""A task set is a folder: `tasks.jsonl`, one task a line, `archives/` beside it, and `manifest.json`, which says how it was made.

A row is a `Task` with its archive's path relative to the folder, so that the folder can be moved or zipped, and beside it what no agent
is shown: `levels`, the statement at each level of help, `repair`, the patch that solves it, and `output`, how its tests fail without it.
A `Task` has no place for its own solution, so that no agent can be handed one by mistake.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from patchgrad.errors import Refuse, Refused, TaskError, one_of_many, stop
from patchgrad.tasks.archive import write_whole
from patchgrad.values import Checks, HiddenFile, Limits, Repository, Task
from patchgrad.values.text import BOM, parsed

TASKS = "tasks.jsonl"
MANIFEST = "manifest.json"
QUARANTINE = "quarantine.jsonl"
FORMAT = "patchgrad set 1"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # str.splitlines would also split at form feeds, which git does not


@dataclass(frozen=True, slots=True)
class Member:
    """A task of a set with what belongs to it and no agent sees. Its instruction is one of the `levels`, named by the tag `level`."""

    task: Task
    levels: Mapping[str, str]
    repair: str
    output: str = ""

    def at(self, level: str) -> Task:
        """The task with its statement at this level of help, or at the first of several that it has: `brief,report`.

        `TaskError` where it has none of them.
        """
        found = next((name for name in level.split(",") if name in self.levels), None)
        if found is None:
            raise TaskError(f"Task {self.task.id} has no statement at level {level!r}: choose from {', '.join(self.levels)}.")
        return replace(self.task, instruction=self.levels[found], tags={**self.task.tags, "level": found})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where some tasks of a set come from. `address` is what that can be had by again: a distribution's hash, or a commit at a `location`.

    `rejected` counts the candidates that became no task, by reason; `how` is the command that made them, `packages` what their tests need.
    `plugins` are what pytest loads, `left_out` files that no archive holds, `quiet` whether pytest was told to say little.
    """

    kind: str
    name: str
    version: str
    address: str
    licence: str
    how: str
    tasks: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    packages: Sequence[str] = ()
    location: str = ""
    plugins: Sequence[str] = ()
    left_out: Sequence[str] = ()
    quiet: bool = False


def load_set(folder: Path, level: str = "report", refuse: Refuse = stop) -> list[Task]:
    """The tasks of a folder with their statements at this level: `load_set(Path("tasks"), "located")`.

    Archives are not opened here; their hash is verified by whoever opens one. `TaskError` for a missing folder; a broken row, or one that
    does not have the level, goes to `refuse`. A last line that a killed writer left unfinished is passed over.
    """
    found = []
    for member in members(folder, refuse):
        with one_of_many(refuse):
            found.append(member.at(level))
    return found


def load_repairs(folder: Path, refuse: Refuse = stop) -> dict[str, str]:
    """Task id -> the patch that solves it: to validate a set with the grader, or to make demonstrations."""
    return {member.task.id: member.repair for member in members(folder, refuse)}


def members(folder: Path, refuse: Refuse = stop) -> list[Member]:
    """Everything of a set but its archives; see `load_set`. A row that is no task goes to `refuse`, and so do two tasks with one id."""
    return [member for _, member in _read(folder, refuse)]


def _read(folder: Path, refuse: Refuse) -> list[tuple[bytes, Member]]:
    """The members, each with its line."""
    path = folder / TASKS
    if not path.exists():
        raise TaskError(f"{path} does not exist: make a task set first, or name the folder that holds one.")
    found: list[tuple[bytes, Member]] = []
    for number, line in _lines(path):
        with one_of_many(refuse):
            found.append((line, _member(_row(path, number, line), folder)))
    twice = [name for name, count in Counter(member.task.id for _, member in found).items() if count > 1]
    for name in twice:
        refuse(TaskError(f"{path} has more than one task {name}: an id may stand for one task only."))
    return [(line, member) for line, member in found if member.task.id not in twice] if twice else found


def save(folder: Path, new: Iterable[Member], origins: Sequence[Origin] = ()) -> list[Member]:
    """Adds members to a set, or makes one, whole or not at all; all of its members, in the order of their ids.

    A member of a known id takes the place of the earlier one. Archives lie in `folder / "archives"` already. The same members give the
    same bytes: nothing in a set tells of time or place. Rows that are no tasks stay as they are, at the end.
    """
    known, spoiled = _known(folder) if (folder / TASKS).exists() else ({}, [])
    return _write(folder, known | {member.task.id: member for member in new}, spoiled, origins)


def quarantine(folder: Path, findings: Mapping[str, Any]) -> list[Member]:
    """Takes the tasks that are named out of a set, into its `quarantine.jsonl` with what was found about each; the members that stay."""
    known, spoiled = _known(folder)
    for name, found in findings.items():
        append(folder / QUARANTINE, row_of(known[name], folder) | {"findings": found})
    return _write(folder, {name: member for name, member in known.items() if name not in findings}, spoiled, ())


def _known(folder: Path) -> tuple[dict[str, Member], list[bytes]]:
    """The members by id, and the lines that are none: a set that is written again keeps them, as they may be all that is left of a task.

    The first error where not one line is a task.
    """
    refused = Refused()
    found = _read(folder, refused)
    refused.unless(found)
    good = {line for line, _ in found}
    return {member.task.id: member for _, member in found}, [line for _, line in _lines(folder / TASKS) if line not in good]


def _write(folder: Path, known: Mapping[str, Member], spoiled: Sequence[bytes], origins: Sequence[Origin]) -> list[Member]:
    found = [known[name] for name in sorted(known)]
    text = b"".join([*(_line(row_of(member, folder)) for member in found), *(line + b"\n" for line in spoiled)])
    told = {(o.kind, o.name, o.version, o.how): o for o in (*read_origins(folder), *origins)}
    write_whole(folder / TASKS, text)
    write_whole(folder / MANIFEST, manifest(found, text, [told[key] for key in sorted(told)]).encode())
    return found


def manifest(found: Sequence[Member], text: bytes, origins: Sequence[Origin]) -> str:
    """What a set is, as JSON: where it comes from, how much of what is in it, and the hashes of its files."""
    tasks = [member.task for member in found]
    counts = {
        name: dict(sorted(Counter(task.tags.get(name, "") for task in tasks).items()))
        for name in ("source", "package", "kind", "family", "split", "licence")
    }
    archives = sorted({task.repository.digest for task in tasks if task.repository.kind == "archive"})
    content = {
        "format": FORMAT,
        "tasks": len(tasks),
        "sha256": {TASKS: hashlib.sha256(text).hexdigest()},
        "archives": archives,
        "origins": [asdict(origin) for origin in origins],
        "counts": counts,
    }
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_origins(folder: Path) -> list[Origin]:
    """What the manifest of a set tells of its sources; nothing where there is none."""
    if not (folder / MANIFEST).exists():
        return []
    try:
        told = json.loads((folder / MANIFEST).read_bytes())["origins"]
        return [_origin(row) for row in told]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TaskError(f"{folder / MANIFEST} is no manifest ({error}): delete it, or make the set again.") from error


def _origin(row: Mapping[str, Any]) -> Origin:
    lists: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Origin(**lists)


def unified(path: str, old: str, new: str) -> str:
    """The patch from one text of a file to another, as `git apply` takes it."""
    parts = difflib.unified_diff(re.findall(_LINE, old), re.findall(_LINE, new), f"a/{path}", f"b/{path}")
    return "".join(part if part.endswith("\n") else f"{part}\n\\ No newline at end of file\n" for part in parts)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines of a JSONL file that a killed process may have left unfinished; none if it does not exist."""
    if path.exists():
        yield from (_row(path, number, line) for number, line in _lines(path))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    *lines, _unfinished = path.read_bytes().removeprefix(BOM).split(b"\n")
    yield from enumerate(lines, 1)


def _row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = parsed(line)
    except ValueError as error:
        raise TaskError(f"{path} is broken in line {number} ({error}): delete that line or make the set again.") from error
    if not isinstance(row, dict):
        raise TaskError(f"{path} is broken in line {number} (it is no object): delete that line or make the set again.")
    return row


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a line; an unfinished one before it is cut off, so that it cannot grow together with this one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        size = file.seek(0, 2)
        if size:
            file.seek(0)
            whole = file.read().rfind(b"\n") + 1
            if whole != size:
                file.truncate(whole)
        file.write(_line(row))


def row_of(member: Member, folder: Path) -> dict[str, Any]:
    """What `append` writes for a member whose archive lies in the folder."""
    row = asdict(member.task)
    row["tags"] = dict(member.task.tags)
    if member.task.repository.kind == "archive":
        location = Path(member.task.repository.location)
        if not location.is_relative_to(folder):
            raise TaskError(f"Task {member.task.id} has its archive at {location}, outside of the set {folder}: put it there first.")
        row["repository"]["location"] = str(location.relative_to(folder))
    return row | {"levels": dict(member.levels), "repair": member.repair, "output": member.output}


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, sort_keys=True).encode() + b"\n"


def _member(row: Mapping[str, Any], folder: Path) -> Member:
    try:
        checks, repository = row["checks"], Repository(**row["repository"])
        lists = {k: tuple(checks[k]) for k in ("fail_to_pass", "pass_to_pass", "protected", "command")}
        if repository.kind == "archive":
            if repository.location.startswith("/") or ".." in Path(repository.location).parts:
                raise TaskError(f"Task {row['id']} has its archive at {repository.location}, outside of the set: it is refused.")
            repository = replace(repository, location=str(folder / repository.location))
        files = tuple(HiddenFile(**file) for file in checks["files"])
        task = Task(
            id=row["id"],
            instruction=row["instruction"],
            repository=repository,
            checks=Checks(**lists, files=files, parser=checks["parser"], patch=checks["patch"], strict=checks.get("strict", False)),
            packages=tuple(row["packages"]),
            setup=tuple(row["setup"]),
            limits=Limits(**row["limits"]),
            tags=row["tags"],
        )
        _texts(task.id, task.instruction, row["repair"], row["output"], *row["levels"].values(), *task.tags.values())
        _texts(*task.packages, *task.setup, *(test for tests in lists.values() for test in tests))
        return Member(task, row["levels"], row["repair"], row["output"])
    except (KeyError, TypeError, AttributeError) as error:
        raise TaskError(f"A row of {folder / TASKS} is no task ({error}): make the set again with this version.") from error


def _texts(*values: object) -> None:
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} stands where a text has to be")
