"""What a scripted demonstrator knows of a task, generated or planted in a real package: the line that is wrong, and what it was."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import open_archive
from patchgrad.tasks.trees import patched
from patchgrad.values import Repository, Task


@dataclass(frozen=True, slots=True)
class Known:
    """A file as it is, what opens it as the issue says, and the one line that is wrong: the first such from line `begins` on."""

    source: str
    place: str
    begins: int
    broken: str
    fixed: str
    function: str


def teachable(task: Task) -> bool:
    """Is one line wrong, and does the issue end with the command that opens it? So of all synthetic tasks, and of brief planted ones."""
    return _exchanged(task) is not None and place(task).startswith("open ")


def known(task: Task) -> Known:
    """What is known of it. Raises `TaskError` where it is not `teachable`."""
    lines, opens, tags = _exchanged(task), place(task), task.tags
    if lines is None or not opens.startswith("open "):
        raise TaskError(f"{task.id} cannot be shown to work on: its bug is no single line, or its issue does not end with what opens it.")
    return Known(_source(task.repository, tags["file"]), opens, int(tags.get("begins") or tags["line"]), *lines, tags["function"])


def place(task: Task) -> str:
    """The last line of its issue: in a task that is `teachable` the command that opens its file."""
    return task.instruction.rstrip().rpartition("\n")[2]


@lru_cache(maxsize=4096)
def _source(repository: Repository, file: str) -> str:
    """The file as the repository begins; the same task is shown several times."""
    files, patch = open_archive(repository), repository.patch
    return (patched(files, patch) if patch else files)[file].decode()


def _exchanged(task: Task) -> tuple[str, str] | None:
    """The line of the task's file that is wrong and the right one, where nothing else of it is.

    A patch of `-a < b` and `+a <= b` gives `("a <= b", "a < b")`. What it takes out of other files are hidden tests.
    """
    if "broken_line" in task.tags:
        return task.tags["broken_line"], task.tags["fixed_line"]
    parts = re.split(r"^--- a/", task.repository.patch, flags=re.MULTILINE)
    own = "".join(part.partition("@@")[2] for part in parts if part.startswith(task.tags.get("file", "") + "\n"))
    gone, planted = ([line[1:] for line in own.splitlines() if line[:1] == sign] for sign in "-+")
    return (planted[0], gone[0]) if len(gone) == len(planted) == 1 else None
