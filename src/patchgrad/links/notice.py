"""Notice that a machine is about to end: a file, which a guest there finds, and then says so to those who have sent it work.

The file's name has the process that it is for, and when this one began, so that a file that is left over is for nobody. A process heeds
what is for itself, and what is for the one that has started it: on Ray that is the node.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Notice:
    """The sender's machine is about to end: send it nothing more, and do elsewhere what it does."""

    why: str


def give(process: int, why: str) -> Path:
    """Tells a process, and those that it has started. Raises `OSError` where there is no such process. The file may be taken away again."""
    path = _place(process)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW  # others may write to this folder, and put a link there
    with open(os.open(path, flags, 0o644), "w") as file:
        file.write(why)
    return path


def noticed() -> str:
    """Why this machine is about to end, or nothing. Files of other users say nothing, but those of the machine's owner do."""
    for process in (os.getpid(), os.getppid()):
        with suppress(OSError):
            path = _place(process)
            if path.lstat().st_uid in (0, os.getuid()):
                return path.read_text().strip() or "it gave no reason"
    return ""


def _place(process: int) -> Path:
    began = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return Path(f"/tmp/patchgrad-notice-{process}-{began}")
