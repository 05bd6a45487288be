"""A task's archive becomes files, by rules that leave nothing to the archive.

A history that came with it is dropped, since it may hold the fix; the first commit is made anew in a sandbox. Standard library only.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
import tarfile
from pathlib import PurePosixPath

from patchgrad.sandboxes.linux import tree


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
