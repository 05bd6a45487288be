"""Files of a cell that nobody in it can change, move or take the place of, while new ones can be made beside them.

    files/testbed/tests/test_a.py    the file itself, mounted read-only over its own place
    line/kept/tests                  the folder above it, mounted in a copy of the tree that is read-only and that nobody uses

A name at which something is mounted cannot be renamed, unlinked or replaced, by whichever path it is reached: the kernel refuses it for
whoever has that mount somewhere in its namespace. So a file needs one mount, and a folder one in the copy: mounted over its own place,
nothing could be renamed into it or out of it any more. The nest mounts, the cell gets the mounts by propagation, and nobody in the cell
may mount or unmount. What the nest writes goes by another copy of the tree, which no cell sees. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from patchgrad.sandboxes.linux import system
from patchgrad.sandboxes.linux.tree import above

_STRICT = system.BENEATH | system.NO_SYMLINKS | system.NO_MAGICLINKS
_FLAGS = system.NOSUID | system.NODEV


class Seal:
    """The sealed files of one cell: `folder` is the cell's own, `files` where its tree is mounted. `ends` undoes all of it.

    `root` is where the host can write to sealed files too: it holds `testbed` and `tmp`.
    """

    def __init__(self, folder: str, files: str) -> None:
        self.root = f"{folder}/bare"
        self._files, self._still, self._kept = f"{files}/testbed", f"{folder}/still", f"{folder}/line/kept"
        self._places: list[str] = []
        self._sealed: set[str] = set()
        for source, target in (
            (self._files, f"{self.root}/testbed"),
            (f"{files}/tmp", f"{self.root}/tmp"),
            (self._files, self._still),
        ):
            os.makedirs(target, exist_ok=True)
            self._bind(source, target)
            system.mount("none", target, "", system.PRIVATE)
        system.mount("none", self._still, "", system.BIND | system.REMOUNT | system.RDONLY | _FLAGS)
        self._bind(self._still, self._kept)

    def _bind(self, source: str, target: str) -> None:
        system.mount(source, target, "", system.BIND)
        self._places.append(target)

    def add(self, paths: Iterable[str]) -> None:
        """Seals these files, relative to the tree; a file that is sealed stays so. `OSError` where the kernel refuses."""
        still = os.open(self._still, os.O_PATH | os.O_DIRECTORY)
        kept = os.open(self._kept, os.O_PATH | os.O_DIRECTORY)
        live = os.open(self._files, os.O_PATH | os.O_DIRECTORY)
        try:
            for path in paths:
                for folder in above(path):
                    self._cover(still, kept, folder)
                self._cover(still, live, path)
        finally:
            for held in (still, kept, live):
                os.close(held)

    def _cover(self, still: int, over: int, path: str) -> None:
        """Mounts what lies at a path of the read-only copy over the same path of another; twice is once."""
        if path in self._sealed:
            return
        held: list[int] = []
        try:
            for folder in (still, over):
                held.append(system.openat2(folder, path, os.O_PATH, resolve=_STRICT))
            system.mount(f"/proc/self/fd/{held[0]}", f"/proc/self/fd/{held[1]}", "", system.BIND)
        finally:
            for number in held:
                os.close(number)
        self._sealed.add(path)

    def end(self) -> None:
        """Takes away the copies of the tree. What is mounted in the tree itself goes with it."""
        while self._places:
            system.unmount(self._places.pop())
