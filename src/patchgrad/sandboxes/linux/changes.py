"""What differs between two trees of a sandbox's files, as entries of a state.

The upper tree may change while it is read, by a program that means harm: each folder is opened beneath the top by the kernel's rules, each
file is counted before it is read, and what is gone meanwhile is not there. Standard library only.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from patchgrad.sandboxes.linux import system
from patchgrad.sandboxes.linux.bounds import Meter, Unkept, nameable

Entries = dict[str, tuple[int, bytes | None]]
Modes = Mapping[str, int]
_AS_THEY_ARE: Modes = MappingProxyType({})

_BENEATH = system.BENEATH | system.NO_SYMLINKS | system.NO_MAGICLINKS
_INDEX = ".git/index"
_CHUNK = 1 << 20
_MEANWHILE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EINVAL, errno.EXDEV, errno.EAGAIN}
)  # what is said of a name that something else has taken since it was looked at


class _Seen(NamedTuple):
    """One name of a tree: its path from the top, and itself in `folder`, which is open while it is looked at."""

    path: str
    name: str
    folder: int
    about: os.stat_result


def changes(upper: str, lower: str, most: int, modes: Modes = _AS_THEY_ARE) -> Entries:
    """What an overlay's upper layer says that differs from the lower: a file that was only touched does not.

    A new or changed folder is an entry without content, a link has its target as content, a deleted path has `None`.
    FIFOs, sockets and devices are no part of a state. Paths in `modes` count as having those: the host has changed them.
    Raises `Unkept` where the entries would take more than `most` bytes when they are
    laid out, or cannot be read.
    """
    entries: Entries = {}
    new: set[str] = set()  # folders where the lower layer has none, perhaps a link: nothing below may be looked up there
    meter, held = Meter(most), dict[tuple[int, int], bytes]()
    for seen in walk(upper, modes):
        path, mode = seen.path, seen.about.st_mode
        old = None if os.path.dirname(path) in new else _stat(os.path.join(lower, path))
        if stat.S_ISDIR(mode) and (old is None or not stat.S_ISDIR(old.st_mode)):
            new.add(path)
        found: Entries = {}
        if stat.S_ISCHR(mode):
            if seen.about.st_rdev == 0 and old is not None:
                found = {path: (0, None)}
        elif stat.S_ISDIR(mode):
            found = _folder(seen, lower, old)
        elif (content := _changed(seen, lower, old, meter, held)) is not None:
            found = {path: (mode, content)}
        for name in found:
            meter.name(name)
        entries |= found
    return entries


def difference(now: str, before: str, most: int, modes: Modes = _AS_THEY_ARE) -> Entries:
    """The same between two whole trees, by content: what is only in `before` is deleted, the topmost folder standing for all in it."""
    gone: Entries = {}
    for path, *_ in walk(before):
        if os.path.dirname(path) not in gone and _stat(os.path.join(now, path)) is None:
            above = _stat(os.path.join(now, os.path.dirname(path)))
            if above is not None and stat.S_ISDIR(above.st_mode):
                gone[path] = (0, None)
    return changes(now, before, most, modes) | gone


def _folder(seen: _Seen, lower: str, old: os.stat_result | None) -> Entries:
    entries: Entries = {}
    if old is None or old.st_mode != seen.about.st_mode:
        entries[seen.path] = (seen.about.st_mode, b"")
    if old is not None and stat.S_ISDIR(old.st_mode) and (present := _replacing(seen)) is not None:
        gone = (name for name in os.listdir(os.path.join(lower, seen.path)) if name not in present)
        entries.update({f"{seen.path}/{name}": (0, None) for name in gone})
    return entries


def _replacing(seen: _Seen) -> set[str] | None:
    """The names in a folder of an upper layer that stands in place of the lower one, and is not laid over it."""
    try:
        here = os.open(seen.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=seen.folder)
    except OSError:
        return None
    try:
        return set(os.listdir(here)) if os.getxattr(here, "user.overlay.opaque") == b"y" else None
    except OSError:
        return None
    finally:
        os.close(here)


def walk(root: str, modes: Modes = _AS_THEY_ARE) -> Iterator[_Seen]:
    """Every path, a folder before what is in it; `Unkept` where one is too deep for a path to name it.

    Each folder is opened beneath the root by the kernel's rules: a link that takes its place meanwhile leads nowhere.
    """
    top = os.open(root, os.O_PATH | os.O_DIRECTORY)
    waiting = [""]
    try:
        while waiting:
            above = waiting.pop()
            try:
                folder = system.openat2(top, above or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=_BENEATH)
            except OSError as error:
                _unread(above, error)
                continue
            try:
                for name in sorted(os.listdir(folder)):
                    path = f"{above}/{name}" if above else name
                    nameable(path)
                    if (about := _stat(name, folder)) is None:
                        continue
                    if path in modes:
                        about = os.stat_result((modes[path], *about[1:]))
                    yield _Seen(path, name, folder, about)
                    if stat.S_ISDIR(about.st_mode):
                        waiting.append(path)
            finally:
                os.close(folder)
    finally:
        os.close(top)


def _unread(path: str, error: OSError) -> None:
    """What was taken away, or replaced by something else, while it was looked for is not there; `Unkept` for what an agent locked up."""
    if isinstance(error, PermissionError):
        raise Unkept(f"{path or '.'} in /testbed cannot be read") from error
    if error.errno not in _MEANWHILE:
        raise error


def _stat(path: str, folder: int | None = None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _changed(seen: _Seen, lower: str, old: os.stat_result | None, meter: Meter, held: dict[tuple[int, int], bytes]) -> bytes | None:
    """A file's content or a link's target where it differs from the lower layer; what is the same there is compared and not held."""
    about = seen.about
    if not stat.S_ISLNK(about.st_mode) and not stat.S_ISREG(about.st_mode):
        return None
    alike = old is not None and old.st_mode == about.st_mode
    place = os.path.join(lower, seen.path)
    try:
        if stat.S_ISLNK(about.st_mode):
            target = os.fsencode(os.readlink(seen.name, dir_fd=seen.folder))
            return None if alike and os.fsencode(os.readlink(place)) == target else target
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(seen.name, flags, dir_fd=seen.folder), "rb", buffering=0) as file:
            if seen.path == _INDEX:
                return _index(file.fileno(), place if alike else None, meter)
            if alike and old is not None and old.st_size == about.st_size and _equal(file.fileno(), place):
                return None
            return _whole(file.fileno(), meter, held)
    except OSError as error:
        _unread(seen.path, error)
        return None


def _whole(file: int, meter: Meter, held: dict[tuple[int, int], bytes]) -> bytes:
    """All of a file, once it is known that there is room for it: what it grows by meanwhile is not read, another name of it not again."""
    about = os.fstat(file)
    meter.file(about.st_size)
    one = (about.st_dev, about.st_ino)
    if about.st_nlink == 1 or one not in held:
        content = _read_exactly(file, about.st_size)
        if about.st_nlink == 1:
            return content
        held[one] = content
    return held[one]


def _read_exactly(file: int, size: int) -> bytes:
    parts = []
    while size > 0 and (part := os.read(file, size)):
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _equal(file: int, path: str) -> bool:
    """Does another file hold the same? The file is at its beginning again afterwards."""
    with open(path, "rb", buffering=0) as other:
        while (part := os.read(file, _CHUNK)) == other.read(_CHUNK):
            if not part:
                return True
    os.lseek(file, 0, os.SEEK_SET)
    return False


def _index(file: int, place: str | None, meter: Meter) -> bytes | None:
    content = plain_index(_whole(file, meter, {}))
    if place is None:
        return content
    with open(place, "rb") as other:
        return None if plain_index(other.read()) == content else content


def plain_index(content: bytes) -> bytes:
    """Git's index without the times and inode numbers it caches, so that `git status` is no change of state.

    Git fills them in again when it next looks. An index of another version than 2 is left as it is.
    """
    if content[:4] != b"DIRC" or len(content) < 32 or struct.unpack(">I", content[4:8])[0] != 2:
        return content
    data = bytearray(content[:-20])
    at = 12
    for _ in range(struct.unpack(">I", content[8:12])[0]):
        data[at : at + 24] = bytes(24)
        data[at + 28 : at + 40] = bytes(12)
        end = data.find(b"\0", at + 62)
        if end < 0:
            return content
        at += (end - at + 8) // 8 * 8
    del data[at:]  # extensions only cache what the entries say
    return bytes(data) + hashlib.sha1(data).digest()
