"""Processes by names that no other process ever has: what is found of one that is gone may be taken away."""

from __future__ import annotations

import os
from pathlib import Path


def owner(pid: int | None = None) -> str:
    """The machine's start, the process's number (ours by default), and when it began: `f3a1....812.170439`. `OSError` if it is gone."""
    number = os.getpid() if pid is None else pid
    began = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}.{number}.{began}"


def lives(name: str) -> bool:
    """Is the process of this name there? One of another machine counts as alive, since nobody here can tell."""
    boot, _, rest = name.partition(".")
    if not owner().startswith(boot):
        return True
    try:
        return owner(int(rest.partition(".")[0])) == name
    except (OSError, ValueError):
        return False
