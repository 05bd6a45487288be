"""Task archives, unpacked once into the nest: the read-only lower layers of every sandbox.

The first commit of each is made inside a cell.
"""

from __future__ import annotations

import os
from collections import OrderedDict

from patchgrad.sandboxes.linux import system
from patchgrad.sandboxes.linux.unpack import extract


class Roots:
    """Unpacked archives by key, the least recently used unmounted first; one that is in use is never dropped."""

    def __init__(self, folder: str, total: int) -> None:
        self._folder = folder
        self._total = total
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._held = 0  # their sum
        self._users: dict[str, int] = {}

    def take(self, key: str) -> str | None:
        """The folder of a ready root, held until `give`; `None` when it must be made."""
        if key not in self._sizes:
            return None
        self._sizes.move_to_end(key)
        self._users[key] = self._users.get(key, 0) + 1
        return self.path(key)

    def give(self, key: str) -> None:
        """Ends one use."""
        self._users[key] -= 1
        self._trim()

    def path(self, key: str) -> str:
        return os.path.join(self._folder, key)

    def unpack(self, key: str, archive: bytes, size: int, outward: bool = False) -> str:
        """A new root in a tmpfs of its own, writable until `ready`; raises `ValueError` in words when the archive is not sound.

        Links may lead out of it only where that is said (`outward`), which is into the image that a repository came with.
        """
        path = self.path(key)
        os.makedirs(path, exist_ok=True)
        system.mount("root", path, "tmpfs", system.NOSUID | system.NODEV, f"size={size},mode=755")
        try:
            extract(archive, path, size, outward)
        except BaseException:
            self.drop(key)
            raise
        return path

    def ready(self, key: str) -> None:
        """The root is whole: count it."""
        about = os.statvfs(self.path(key))
        self._sizes[key] = (about.f_blocks - about.f_bfree) * about.f_frsize
        self._held += self._sizes[key]
        self._trim()

    def drop(self, key: str) -> None:
        path = self.path(key)
        system.unmount(path)
        os.rmdir(path)

    def _trim(self) -> None:
        if self._held <= self._total:
            return
        for key in list(self._sizes):
            if self._held <= self._total or len(self._sizes) == 1:
                return
            if not self._users.get(key):
                self._held -= self._sizes.pop(key)
                self.drop(key)
