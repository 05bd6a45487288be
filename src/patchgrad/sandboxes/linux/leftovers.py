"""What a sandbox holds that no state does: processes that go on, and files outside of the repository. Told by name, and not all of them.

    ["sleep 100"], ["/tmp/notes"]  ->  ("the process `sleep 100`", "the file `/tmp/notes`")

Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice

_OURS = ("home", ".pytest_cache")  # a sandbox's own HOME, and where it has pytest keep its cache
_PYTEST = "pytest-of-"  # where pytest itself lays temporary folders
TOO_LARGE = "the variables and functions of the shell, which are too many to keep"
_SHELL = b"bash\0--norc\0--noprofile\0-c\0"
_NAMED = 8
_LONGEST = 80
_MOST = 1024


def told(processes: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    """Each of them in words, the first of each kind by name."""
    return (*_named("process", "processes", processes), *_named("file", "files", files))


def _named(one: str, several: str, names: Sequence[str]) -> Iterator[str]:
    for name in names[:_NAMED]:
        yield f"the {one} `{name[:_LONGEST]}`"
    if len(names) > _NAMED:
        yield f"{len(names) - _NAMED} more {several}"


def files(folders: dict[str, str]) -> list[str]:
    """What lies in folders, by the paths that an agent knows them by: `{"/tmp": "/where/it/is"}`. A link in a folder's place is none."""
    found = []
    for path, folder in folders.items():
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            with os.scandir(handle) as entries:
                names = [entry.name for entry in islice(entries, _MOST)]
        finally:
            os.close(handle)
        found += [f"{path}/{name}" for name in sorted(names) if not is_ours(name)]
    return found


def is_ours(name: str) -> bool:
    """Is it there without the agent's doing?"""
    return name in _OURS or name.startswith(_PYTEST)


def command_of(pid: int) -> str:
    """How a process was called; `bash` for a part of the agent's shell, and nothing where it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 10)
        if words.startswith(_SHELL):
            return "bash"
        return " ".join(words.decode(errors="replace").split("\0")).strip()
    except OSError:
        return ""
