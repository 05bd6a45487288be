"""Sealed files where nothing can be mounted: they and the folders above them become root's, and only their group is the sandbox's.

    tests/           user 6000001, 0755   ->   root, group 6000001, 1775: anyone of the group makes files and takes away their own
    tests/test_a.py  user 6000001, 0644   ->   root, group 6000001, 0644: read, and nothing else

In a folder with the sticky bit only the owner of a file, or of the folder, may rename or unlink it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from patchgrad.sandboxes.linux import system, tree

_STRICT = system.BENEATH | system.NO_SYMLINKS | system.NO_MAGICLINKS
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


class Seal:
    """The sealed files of a sandbox at `home` whose user and group is `user`. `modes` are those that its files and folders had before."""

    def __init__(self, home: str, user: int) -> None:
        self._home, self._user = home, user
        self.modes: dict[str, int] = {}

    def add(self, paths: Iterable[str]) -> None:
        """Seals these files, relative to the tree. Raises `OSError`."""
        root = os.open(f"{self._home}/testbed", os.O_RDONLY | os.O_DIRECTORY)
        try:
            for path in paths:
                for place in (".", *tree.above(path), path):
                    self._take(root, place)
        finally:
            os.close(root)

    def holds(self, path: str) -> bool:
        """Is this file, `testbed/a.py`, or what it links to sealed?"""
        try:
            return bool(self.modes) and tree.regular(self._home, [path])[0] in self.modes
        except OSError:
            return False

    def _take(self, root: int, path: str) -> None:
        if path in self.modes:
            return
        held = system.openat2(root, path, os.O_RDONLY | os.O_NONBLOCK, resolve=_STRICT)
        try:
            mode = os.fstat(held).st_mode
            os.fchown(held, _ROOT, self._user)
            os.fchmod(held, sealed(mode))
            self.modes[path] = mode
        finally:
            os.close(held)


def sealed(mode: int) -> int:
    """What a mode becomes: the group, which is the sandbox's, may read a file, and make new ones in a folder."""
    owner = (mode & stat.S_IRWXU) >> 3
    if stat.S_ISDIR(mode):
        return stat.S_IMODE(mode) | owner | stat.S_ISVTX
    return stat.S_IMODE(mode) & ~_OTHERS_WRITE | owner & ~stat.S_IWGRP
