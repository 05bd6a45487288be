"""A process locks itself in: Landlock for files, TCP and signals, a seccomp filter without the internet's sockets, no capabilities.

None of it needs a privilege and none of it can be undone, by the process or by any that it starts.
https://docs.kernel.org/userspace-api/landlock.html. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import struct
from collections.abc import Iterable, Mapping

from patchgrad.sandboxes.linux import filter, system

NEEDED = 6  # the first interface that keeps signals inside
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ALL_FILES, _READING = (1 << 16) - 1, (1 << 0) | (1 << 2) | (1 << 3)  # execute, read a file, read a folder
_OF_FILES = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14) | (1 << 15)  # the rights that mean something for what is no folder
_TCP, _SCOPES = 3, 3
_HERE = (1, 16)  # unix and netlink

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def version() -> int:
    """The kernel's Landlock interface; 0 where there is none."""
    return max(0, int(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def ruleset(readable: Iterable[str], writable: Iterable[str]) -> int:
    """A descriptor of the rules: these paths with what is below them, no TCP, and no signal or abstract socket that leads outside."""
    rules = struct.pack("<QQQ", _ALL_FILES, _TCP, _SCOPES)
    made = _check(_libc.syscall(_CREATE, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint32(0)), "landlock")
    for rights, paths in ((_READING, readable), (_ALL_FILES, writable)):
        for path in paths:
            _allow(made, path, rights)
    return made


def confine(rules: int, limits: Mapping[int, tuple[int, int]]) -> None:
    """Locks the calling process in. Raises `OSError`; whoever goes on regardless is not confined."""
    for which, values in limits.items():
        resource.setrlimit(which, values)
    system.give_up_capabilities()
    _check(_libc.syscall(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0)), "landlock")
    system.refuse_calls(filter.program(families=_HERE))


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("<Qi", rights, place)
        _check(_libc.syscall(_ADD, ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0)), path)
    finally:
        os.close(place)


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return int(result)


def covering(path: str, without: Iterable[str]) -> list[str]:
    """What to allow so that all below `path` is but these: `covering("/usr", ["/usr/local"])` is each folder of /usr but that one."""
    inner = [hidden for hidden in without if hidden == path or hidden.startswith(f"{path}/")]
    if path in inner:
        return []
    if not inner:
        return [path]
    return [found for name in sorted(os.listdir(path)) for found in covering(f"{path}/{name}", inner)]
