"""Task archives, unpacked once into the nest: the read-only lower layers of every sandbox.

A history that came with an archive is dropped, since it may hold the fix; the first commit is made anew inside a cell.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
import tarfile
from collections import OrderedDict
from pathlib import PurePosixPath

from patchgrad.sandboxes.bwrap import system, tree


class Roots:
    """Unpacked archives by key, the least recently used unmounted first; one that is in use is never dropped."""

    def __init__(self, folder: str, total: int) -> None:
        self._folder = folder
        self._total = total
        self._sizes: OrderedDict[str, int] = OrderedDict()
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
        self._trim()

    def drop(self, key: str) -> None:
        path = self.path(key)
        system.unmount(path)
        os.rmdir(path)

    def _trim(self) -> None:
        for key in list(self._sizes):
            if sum(self._sizes.values()) <= self._total or len(self._sizes) == 1:
                return
            if not self._users.get(key):
                del self._sizes[key]
                self.drop(key)


def extract(archive: bytes, folder: str, size: int, outward: bool = False) -> None:
    """Unpacks a plain or gzip tar below `folder`. A path or link that leads outside, or a device, is refused, not skipped."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:*") as tar:
            members = [member for member in tar.getmembers() if not _history(member.name)]
            if sum(member.size for member in members) > size:
                raise ValueError(f"unpacks to more than {size} bytes")
            tree.apply(folder, dict(_entry(tar, member, outward) for member in members if _inside(member.name)))
    except (tarfile.TarError, EOFError, OSError, KeyError) as error:
        raise ValueError(f"cannot be unpacked: {error}") from error


def _entry(tar: tarfile.TarFile, member: tarfile.TarInfo, outward: bool) -> tuple[str, tuple[int, bytes]]:
    path = _inside(member.name)
    if member.isdir():
        return path, (stat.S_IFDIR | member.mode & 0o755 | 0o700, b"")
    if member.issym():
        if not outward:
            _inside(os.path.join(os.path.dirname(path), member.linkname))
        return path, (stat.S_IFLNK | 0o777, os.fsencode(member.linkname))
    file = tar.extractfile(member) if member.isreg() or member.islnk() else None
    if file is None:
        raise ValueError(f"holds something that is no file, folder or link: {member.name}")
    return path, (stat.S_IFREG | member.mode & 0o755 | 0o600, file.read())


def _inside(name: str) -> str:
    """The path from the top of the archive, without dots: "./a/../b" -> "b", and the top itself -> ""."""
    path = posixpath.normpath(name)
    if path.startswith(("/", "../")) or path == "..":
        raise ValueError(f"leads outside: {name}")
    return "" if path == "." else path


def _history(name: str) -> bool:
    return ".git" in PurePosixPath(name).parts
