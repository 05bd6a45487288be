"""Files of a sandbox as the nest sees them: reads and writes through links that may be hostile, and the restoring of a state.

Everything is relative to an open folder and resolved by the kernel inside it (`openat2`), so a link, a `..` or a magic link made
by the agent leads nowhere else. Only regular files are read or written: a FIFO would block, a device could answer.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from patchgrad.sandboxes.linux import system
from patchgrad.sandboxes.linux.changes import Entries

READ_CAP = 64 << 20
INSIDE = system.IN_ROOT | system.NO_MAGICLINKS
_STRICT = system.BENEATH | system.NO_SYMLINKS | system.NO_MAGICLINKS


def read(root: str, path: str) -> bytes:
    """A regular file's content; `OSError` otherwise, as `open` would say it."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        file = system.openat2(folder, path, os.O_RDONLY | os.O_NONBLOCK, resolve=INSIDE)
    finally:
        os.close(folder)
    with os.fdopen(file, "rb") as stream:
        about = os.fstat(file)
        _regular(about, path)
        if about.st_size > READ_CAP:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return stream.read(READ_CAP)


def write(root: str, path: str, content: bytes) -> None:
    """Writes a regular file, following links inside the sandbox as a shell would, and makes the folders above it."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        make_folders(folder, os.path.dirname(path), INSIDE)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK
        file = system.openat2(folder, path, flags, 0o644, INSIDE)
    finally:
        os.close(folder)
    with os.fdopen(file, "wb") as stream:
        _regular(os.fstat(file), path)
        os.ftruncate(file, 0)
        stream.write(content)


def _regular(about: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(about.st_mode):
        raise PermissionError(errno.EACCES, "not a regular file", path)


def regular(files: str, paths: Iterable[str]) -> list[str]:
    """The same files, `testbed/a.py` -> `a.py`, with links followed; `OSError` that names the first that is no regular file of the tree."""
    top, tree, found = os.open(files, os.O_PATH | os.O_DIRECTORY), f"{files}/testbed/", []
    try:
        for path in paths:
            file = system.openat2(top, path, os.O_PATH, resolve=INSIDE)
            mode, place = os.fstat(file).st_mode, os.readlink(f"/proc/self/fd/{file}")
            os.close(file)
            if not stat.S_ISREG(mode) or not place.startswith(tree):
                raise PermissionError(errno.EACCES, "not a regular file below /testbed", path)
            found.append(place.removeprefix(tree))
        return found
    finally:
        os.close(top)


def above(path: str) -> list[str]:
    """The folders above a path, outermost first: `a/b/c.py` -> `["a", "a/b"]`."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def make_folders(root: int, path: str, resolve: int) -> None:
    """`mkdir -p` one step at a time: each step is opened by the kernel's rules before the next is made in it."""
    done = ""
    for name in [part for part in path.split("/") if part]:
        above = system.openat2(root, done or ".", os.O_PATH | os.O_DIRECTORY, resolve=resolve)
        try:
            os.mkdir(name, 0o755, dir_fd=above)
        except FileExistsError:
            pass
        finally:
            os.close(above)
        done = f"{done}/{name}" if done else name


def apply(root: str, entries: Entries) -> None:
    """Makes a pristine tree into the one that `changes` was taken from. Refuses any path that leads through a link."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        for path, (_, content) in sorted(entries.items()):
            if content is None:
                _remove(folder, path)
        for path, (mode, content) in sorted(entries.items()):
            if content is not None:
                _put(folder, path, mode, content)
        for path, (mode, content) in sorted(entries.items(), reverse=True):
            if content is not None and stat.S_ISDIR(mode):
                _change_mode(folder, path, mode)
    finally:
        os.close(folder)


def _above(root: int, path: str) -> tuple[int, str]:
    head, name = os.path.split(path)
    if not name or name in (".", ".."):
        raise PermissionError(errno.EACCES, "not a path below the repository", path)
    make_folders(root, head, _STRICT)
    return system.openat2(root, head or ".", os.O_RDONLY | os.O_DIRECTORY, resolve=_STRICT), name


def _remove(root: int, path: str) -> None:
    above, name = _above(root, path)
    try:
        delete(above, name)
    finally:
        os.close(above)


def delete(above: int, name: str) -> None:
    """Takes a file, or a folder with all in it, out of an open folder; a name that is not there is no error."""
    try:
        about = os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(about.st_mode):
        os.unlink(name, dir_fd=above)
        return
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        for below in os.listdir(inner):
            delete(inner, below)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=above)


def _put(root: int, path: str, mode: int, content: bytes) -> None:
    above, name = _above(root, path)
    try:
        try:
            old = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        except FileNotFoundError:
            old = 0
        if old and (stat.S_IFMT(old) != stat.S_IFMT(mode) or stat.S_ISLNK(old)):
            delete(above, name)
            old = 0
        if stat.S_ISDIR(mode):
            if not old:
                os.mkdir(name, 0o755, dir_fd=above)
        elif stat.S_ISLNK(mode):
            os.symlink(content, name, dir_fd=above)
        else:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644, dir_fd=above)
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
                os.fchmod(file, stat.S_IMODE(mode))
    finally:
        os.close(above)


def _change_mode(root: int, path: str, mode: int) -> None:
    file = system.openat2(root, path, os.O_RDONLY | os.O_DIRECTORY, resolve=_STRICT)
    try:
        os.fchmod(file, stat.S_IMODE(mode))
    finally:
        os.close(file)
