"""How a fork of the zygote becomes PID 1 of a cell: namespaces and files of its own, and nothing left that it may do.

Bubblewrap made the file system that all cells of a kind share, and the zygote lives in it; this adds what is one cell's alone. Its process
namespace is there already: the zygote made it for the fork. Afterwards there are no capabilities, a user namespace in which none can be
made, and a filter of system calls, for this process and all that it starts. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

from patchgrad.sandboxes.linux import system

_HIDDEN = ("cmdline", "keys", "key-users", "kallsyms", "timer_list", "sched_debug")
_FIXED = ("sys", "sysrq-trigger", "irq", "bus")  # switches of the kernel; some would be writable
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_USER = 1000
_TERMINALS = 32  # of the 3,072 that the kernel has for all but the host's own, and one nest has at most 64 cells


class Place(NamedTuple):
    """A folder that is the cell's alone: where it goes, what `system.tree_of` holds of it, and may it be written to?"""

    path: str
    tree: int
    writable: bool


def isolate(places: Iterable[Place], group: int | None, rules: bytes) -> None:
    """Locks this process in, with its `places`, in the control group with this door; both are closed.

    Raises `OSError`; whoever goes on regardless is not isolated.
    """
    if group is not None:
        os.write(group, b"0")
        os.close(group)
    os.setsid()
    system.unshare(system.NEW_NS | system.NEW_IPC | system.NEW_UTS | system.NEW_NET)
    _loopback()
    socket.sethostname("testbed")
    system.mount("none", "/", "", system.REC | system.PRIVATE)
    switches = _processes()
    terminals = f"newinstance,ptmxmode=0666,mode=620,max={_TERMINALS}"
    system.mount("terminals", "/dev/pts", "devpts", system.NOSUID | system.NOEXEC, terminals)
    for place in places:
        system.attach(place.tree, place.path)
        os.close(place.tree)
        if not place.writable:
            system.mount("none", place.path, "", system.BIND | system.REMOUNT | system.RDONLY | system.NOSUID | system.NODEV)
    _own_user(switches)
    os.close(switches)
    system.give_up_capabilities()
    system.refuse_calls(rules)
    system.dumpable(False)


def _loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))


def _processes() -> int:
    """A /proc of this process namespace; gives its folder of switches as it was before nobody could write there."""
    plain = system.NOSUID | system.NODEV | system.NOEXEC
    system.mount("proc", "/proc", "proc", plain)
    switches = os.open("/proc/sys", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in (*_HIDDEN, *_FIXED):
        if os.path.exists(f"/proc/{name}"):
            system.mount("/dev/null" if name in _HIDDEN else f"/proc/{name}", f"/proc/{name}", "", system.BIND)
            system.mount("none", f"/proc/{name}", "", system.BIND | system.REMOUNT | system.RDONLY | plain)
    return switches


def _own_user(switches: int) -> None:
    """A user namespace that allows one more below it, and in it that one: the files' owner outside, and no room for another."""
    for last in (False, True):
        system.unshare(system.NEW_USER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{_USER} {_USER} 1"), ("gid_map", f"{_USER} {_USER} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        if not last:
            with open(os.open("user/max_user_namespaces", os.O_WRONLY, dir_fd=switches), "w") as file:
                file.write("1")
