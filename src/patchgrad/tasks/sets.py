"""A task set is a folder: `tasks.jsonl`, one task a line, and `archives/` beside it, so that the folder can be moved or zipped.

A row is a `Task` with its archive's path relative to the folder, and beside it `levels`, the statement at each level of help, and
`repair`, the patch that solves it. A `Task` has no place for its own solution, so that no agent can be handed one by mistake.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from patchgrad.errors import TaskError
from patchgrad.values import Checks, HiddenFile, Limits, Repository, Task

TASKS = "tasks.jsonl"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # str.splitlines would also split at form feeds, which git does not


def load_set(folder: Path, level: str = "report") -> list[Task]:
    """The tasks of a folder with their statements at this level: `load_set(Path("tasks"), "located")`.

    Archives are not opened here; their hash is verified by whoever opens one. `TaskError` for a missing folder, a broken row, or a
    level that a row does not have. A last line that a killed writer left unfinished is passed over.
    """
    if not (folder / TASKS).exists():
        raise TaskError(f"{folder / TASKS} does not exist: make a task set first, or name the folder that holds one.")
    return [_task(row, folder, level) for row in rows(folder / TASKS)]


def load_repairs(folder: Path) -> dict[str, str]:
    """Task id -> the patch that solves it: to validate a set with the grader, or to make demonstrations."""
    return {row["id"]: row["repair"] for row in rows(folder / TASKS)}


def unified(path: str, old: str, new: str) -> str:
    """The patch from one text of a file to another, as `git apply` takes it."""
    parts = difflib.unified_diff(re.findall(_LINE, old), re.findall(_LINE, new), f"a/{path}", f"b/{path}")
    return "".join(part if part.endswith("\n") else f"{part}\n\\ No newline at end of file\n" for part in parts)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines of a JSONL file that a killed process may have left unfinished; none if it does not exist."""
    if not path.exists():
        return
    *lines, _unfinished = path.read_text().split("\n")
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise TaskError(f"{path} is broken in line {number} ({error}): delete that line or make the set again.") from error


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
        file.write(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() + b"\n")


def row_of(task: Task, folder: Path, levels: Mapping[str, str], repair: str) -> dict[str, Any]:
    """What `append` writes for a task whose archive lies in the folder."""
    row = asdict(task)
    row["tags"] = dict(task.tags)
    row["repository"]["location"] = str(Path(task.repository.location).relative_to(folder))
    return row | {"levels": dict(levels), "repair": repair}


def _task(row: Mapping[str, Any], folder: Path, level: str) -> Task:
    try:
        if level not in row["levels"]:
            raise TaskError(f"Task {row['id']} has no statement at level {level!r}: choose from {', '.join(row['levels'])}.")
        checks = row["checks"]
        lists = {k: tuple(checks[k]) for k in ("fail_to_pass", "pass_to_pass", "protected", "command")}
        repository = Repository(**row["repository"])
        return Task(
            id=row["id"],
            instruction=row["levels"][level],
            repository=replace(repository, location=str(folder / repository.location)),
            checks=Checks(**lists, files=tuple(HiddenFile(**f) for f in checks["files"]), parser=checks["parser"]),
            setup=tuple(row["setup"]),
            limits=Limits(**row["limits"]),
            tags={**row["tags"], "level": level},
        )
    except (KeyError, TypeError) as error:
        raise TaskError(f"A row of {folder / TASKS} is no task ({error}): make the set again with this version.") from error
