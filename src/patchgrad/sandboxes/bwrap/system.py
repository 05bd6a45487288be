"""The Linux calls that Python's `os` lacks: mounts, namespaces, `openat2`. Standard library only; the nest runs on it."""

from __future__ import annotations

import ctypes
import os
import struct

NEW_NS, NEW_USER = 0x20000, 0x10000000
NOSUID, NODEV, NOATIME = 2, 4, 1024
BIND, REC, PRIVATE, SHARED, SLAVE = 4096, 0x4000, 1 << 18, 1 << 20, 1 << 19
IN_ROOT, BENEATH, NO_SYMLINKS, NO_MAGICLINKS = 0x10, 0x08, 0x04, 0x02

_DETACH = 2
_OPENAT2 = 437
_PIDFD_GETFD = 438
_SET_DUMPABLE = 4

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """`mount(2)`; raises `OSError` that names the target."""
    arguments = (source.encode(), os.fsencode(target), kind.encode() or None, flags, options.encode() or None)
    _check(_libc.mount(*arguments), target)


def unmount(target: str) -> None:
    """Detaches a mount now; open files keep it alive until they are closed."""
    _check(_libc.umount2(os.fsencode(target), _DETACH), target)


def unshare(flags: int) -> None:
    """`unshare(2)`; a user namespace needs a single-threaded caller."""
    _check(_libc.unshare(flags), "unshare")


def dumpable(yes: bool) -> None:
    """May processes of the same user look into this one? A change of user id turns it off, and `/proc/self` with it."""
    _check(_libc.prctl(_SET_DUMPABLE, int(yes), 0, 0, 0), "prctl")


def openat2(folder: int, path: str, flags: int, mode: int = 0, resolve: int = 0) -> int:
    """`open` with rules for every step of the path, which is what keeps a hostile link from leading the reader out."""
    how = struct.pack("<QQQ", flags | os.O_CLOEXEC, mode, resolve)
    return int(_check(_libc.syscall(_OPENAT2, folder, os.fsencode(path), how, len(how)), path))


def descriptor_of(pidfd: int, number: int) -> int:
    """A true duplicate of another process's descriptor: it shares the file offset, unlike opening `/proc/PID/fd/N`."""
    return int(_check(_libc.syscall(_PIDFD_GETFD, pidfd, number, 0), "pidfd_getfd"))
