"""A hard limit on the memory of a cell, where the trainer may make control groups: as root, with version 1 or 2 of the kernel's interface.

    a group of ours -- patchgrad-USER-OWNER, given to the nest's user --+-- nest
                                                                         +-- 1, 2 ...: one a cell

Without the right to make them nothing here is used, and the warden's look at what its processes hold, ten times a second, is all there is.
With it that look still comes first and ends what grows slowly in words; the group stops what is faster. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

PREFIX = "patchgrad-"
_RESERVE = 96 << 20  # for the warden with pytest loaded, which lives in the group of its cell
_EVENTS = ("memory.oom_control", "memory.events")  # where each version counts the processes that it ended
_ONE, _TWO = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), ("memory.max", "memory.swap.max")


def make(owner: str, user: int, lives: Callable[[str], bool], proc: Path = Path("/proc/self")) -> Path | None:
    """A group for the cells of one nest, that `user` may divide; `None` where this process may not. Those of the dead are taken away."""
    parent = place(proc)
    if parent is None:
        return None
    for left in parent.glob(f"{PREFIX}*"):
        if not lives(left.name.removeprefix(PREFIX).partition("-")[2]):
            remove(left)
    top = parent / f"{PREFIX}{user}-{owner}"
    try:
        _divide(parent)
        top.mkdir()
        _divide(top)
        (top / "nest").mkdir()
        for path in (top, top / "cgroup.procs", top / "nest", top / "nest" / "cgroup.procs"):
            os.chown(path, user, user)
    except OSError:
        remove(top)
        return None
    return top


def place(proc: Path = Path("/proc/self"), me: int | None = None) -> Path | None:
    """Where this process may make groups: in version 1 below its own; in version 2, whose groups hold processes or groups, beside it.

    `me` is whose rights it has, by default those that it runs with.
    """
    if (os.geteuid() if me is None else me) != 0:
        return None
    own = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(",") if controllers else ["unified"], path))
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup" and "memory" in options.split(","):
            return _below(point, root, own.get("memory", "/"))
        if kind == "cgroup2" and "memory" in _words(Path(point) / "cgroup.controllers"):
            return _below(point, root, os.path.dirname(own.get("unified", "/")))
    return None


def _below(point: str, root: str, path: str) -> Path | None:
    found = Path(point) / os.path.relpath(path, root) if path.startswith(root) else Path(point)
    return found if found.is_dir() and os.access(found, os.W_OK) else None


def _divide(group: Path) -> None:
    """Lets the groups below have limits of their own, which version 2 wants to be told."""
    switch = group / "cgroup.subtree_control"
    if switch.exists() and "memory" not in _words(switch):
        switch.write_text("+memory")


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def remove(group: Path, seconds: float = 2.0) -> None:
    """Takes a group away with all below it, once their processes have ended; what does not end in time stays for the next sweep."""
    deadline = time.monotonic() + seconds
    for folder, _, _ in os.walk(group, topdown=False):
        while os.path.isdir(folder):
            try:
                os.rmdir(folder)
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)


class Group:
    """The group of one cell, made and filled by the nest."""

    def __init__(self, top: str, name: str) -> None:
        self._path = Path(top) / name
        self._path.mkdir()
        self._files = [self._path / file for file in (_ONE if (self._path / _ONE[0]).exists() else _TWO)]

    def door(self) -> int:
        """A descriptor: whoever writes 0 to it is in.

        In version 1 the file is that of threads: a thread that moves itself waits for nobody, a process for a grace period, 10 to 20 ms.
        """
        return os.open(self._path / ("tasks" if self._files[0].name == _ONE[0] else "cgroup.procs"), os.O_WRONLY)

    def limit(self, memory: int, disk: int) -> None:
        """So much for the processes of an episode and its files, which are memory too. No swap: it would only put the end off."""
        total = memory + disk + _RESERVE
        memory_file, swap_file = self._files
        with contextlib.suppress(OSError):  # version 1 wants its two limits raised in the one order and lowered in the other
            memory_file.write_text(str(total))
        with contextlib.suppress(OSError):  # not every kernel counts swap
            swap_file.write_text(str(total if swap_file.name == _ONE[1] else 0))
        memory_file.write_text(str(total))

    def ran_out(self) -> bool:
        """Has the kernel ended a process of the group for want of memory?"""
        words = [word for file in _EVENTS for word in _words(self._path / file)]
        return any(name == "oom_kill" and count != "0" for name, count in pairwise(words))

    def remove(self) -> None:
        remove(self._path)
