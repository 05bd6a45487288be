"""What a scripted demonstrator knows of a task, generated or planted in a real package: the line that is wrong, and what it was."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import open_archive
from patchgrad.tasks.trees import patched
from patchgrad.values import Repository, Task


@dataclass(frozen=True, slots=True)
class Known:
    """A file as it is, what opens it as the issue says, and the one line that is wrong: the first such from line `begins` on.

    `place` is empty where the issue does not end with what opens the file. `families` are the bugs that the line may have.
    """

    source: str
    place: str
    begins: int
    broken: str
    fixed: str
    function: str
    file: str
    families: tuple[str, ...]

    @property
    def line(self) -> int:
        """The number of the wrong line, from 1 on."""
        return self.source.splitlines().index(self.broken, self.begins - 1) + 1


EXCHANGES = ("cmp_boundary", "cmp_negate", "op_unswap", "bool_swap")
"""What undoes an exchange of one operator or truth value, which all bugs of generated tasks are."""
PLANTED = (*EXCHANGES, "negate_cond", "const_off1", "swap_args", "wrong_name", "swap_branches")
"""What undoes a bug of one line that is planted in a package, as far as it can be seen from the line."""


def teachable(task: Task) -> bool:
    """Is one line wrong, and is it known what it was? So of all synthetic tasks, and of most planted ones."""
    return _exchanged(task) is not None


def known(task: Task) -> Known:
    """What is known of it. Raises `TaskError` where it is not `teachable`."""
    lines, tags = _exchanged(task), task.tags
    if lines is None:
        raise TaskError(f"{task.id} cannot be shown to work on: its bug is no single line.")
    begins, families = int(tags.get("begins") or tags["line"]), EXCHANGES if "broken_line" in tags else PLANTED
    opens = place(task) if placed(task) else ""
    return Known(_source(task.repository, tags["file"]), opens, begins, *lines, tags["function"], tags["file"], families)


def wrong_lines(tasks: Iterable[Task]) -> set[str]:
    """The wrong lines of these tasks, as far as they are known, without indentation."""
    return {lines[0].strip() for task in tasks if (lines := _exchanged(task)) is not None} - {""}


def ordinary_lines(tasks: Iterable[Task]) -> set[str]:
    """The lines of the packages in which these tasks have a planted bug, as they were before: `return None` alone tells of no bug."""
    packages = {task.repository.digest: replace(task.repository, patch="") for task in tasks if task.repository.patch}
    files = (item for repository in packages.values() for item in open_archive(repository).items())
    return {line.strip() for name, content in files if name.endswith(".py") for line in content.decode(errors="replace").splitlines()}


def placed(task: Task) -> bool:
    """Does its issue end with the command that opens the file?"""
    return place(task).startswith("open ")


def place(task: Task) -> str:
    """The last line of its issue: in a task that is `placed` the command that opens its file."""
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
