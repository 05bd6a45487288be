"""The seccomp filter of a cell, assembled by hand so that no library is needed.

Denied is what an unprivileged process has no honest use for: new namespaces and mounts, looking into other processes, kernel
features with a history of holes, IPC objects that outlive a process, and changes to *another* process's limits or priority: PID 1
of a cell serves the next episode too, and must not be slowed down by this one. `clone3` answers ENOSYS, so that libc falls back to
`clone`, whose flags a filter can see.

Denied as well is what reaches other sandboxes through files that all of them read, or through what the kernel counts by user: a lease on
a program stops whoever runs it, a watch tells who does.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass

_LOAD, _JUMP_EQUAL, _JUMP_SET, _JUMP_GREATER, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x45, 0x25, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NEW_NAMESPACES = 0x7E020080  # user, mount, pid, net, ipc, uts, cgroup and time
_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink; the network namespace has a loopback only
_ON_FILES = (1024, 1026, 1040)  # commands of fcntl: set a lease, give notice of a folder, set a delegation of one
_SET_PIPE_SIZE, _PIPE = 1031, 1 << 16  # what a pipe holds from the start; all pages of pipes are counted by user

_X86_DENIED = (
    *(101, 310, 311, 312),  # ptrace, process_vm_readv, process_vm_writev, kcmp
    *(155, 161, 165, 166, 272, 308),  # pivot_root, chroot, mount, umount2, unshare, setns
    *(428, 429, 430, 431, 432, 433, 442),  # open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
    *(246, 320, 169, 175, 176, 313, 167, 168, 163, 179),  # kexec, reboot, modules, swap, acct, quotactl
    *(248, 249, 250),  # add_key, request_key, keyctl
    *(298, 300, 301, 303, 304, 321, 323),  # perf_event_open, fanotify, open_by_handle, bpf, userfaultfd
    *(425, 426, 427),  # io_uring
    *(29, 30, 31, 64, 65, 66, 67, 68, 69, 70, 71, 220, 240, 241),  # System V IPC and message queues
    *(256, 279, 440, 448, 251, 103, 227, 164),  # migrate_pages, move_pages, process_*, ioprio_set, syslog, clocks
)
_ARM_DENIED = (
    *(117, 270, 271, 272, 41, 51, 40, 39, 97, 268),
    *(428, 429, 430, 431, 432, 433, 442),
    *(104, 294, 142, 105, 106, 273, 224, 225, 89, 60, 217, 218, 219),
    *(241, 262, 263, 264, 265, 280, 282, 425, 426, 427),
    *(194, 195, 196, 190, 191, 192, 193, 197, 186, 187, 188, 189, 180, 181),
    *(238, 239, 440, 448, 30, 116, 112, 170),
)


@dataclass(frozen=True, slots=True)
class Table:
    """A machine's numbers. `on_self` maps a call to those of its arguments that must be zero: "myself".

    `absent` calls look as on a kernel that does not know them, so that programs take another way: clone3, whose flags no filter can read,
    memfd_create and memfd_secret, whose memory is in no process and in no limited file system, inotify_init and inotify_init1, which show
    what others open, and io_setup, whose requests are counted for the whole kernel.
    """

    architecture: int
    denied: tuple[int, ...]
    on_self: dict[int, tuple[int, ...]]
    sockets: tuple[int, int]
    clone: int
    fcntl: int
    absent: tuple[int, ...]


_TABLES = {  # on_self: prlimit64, sched_setaffinity, sched_setscheduler, sched_setparam, sched_setattr, setpriority
    "x86_64": Table(
        0xC000003E,
        _X86_DENIED,
        {302: (0,), 203: (0,), 144: (0,), 142: (0,), 314: (0,), 141: (0, 1)},
        (41, 53),
        56,
        72,
        (435, 319, 447, 253, 294, 206),
    ),
    "aarch64": Table(
        0xC00000B7,
        _ARM_DENIED,
        {261: (0,), 122: (0,), 119: (0,), 118: (0,), 274: (0,), 140: (0, 1)},
        (198, 199),
        220,
        25,
        (435, 279, 447, 26, 0),
    ),
}


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value & 0xFFFFFFFF)


def _refuse(code: int) -> bytes:
    return _op(_RETURN, _ERRNO | code)


def _block(number: int, body: list[bytes]) -> bytes:
    """Runs `body` for this system call, skips it for all others; the body falls through to allowing."""
    return _op(_JUMP_EQUAL, number, 0, len(body) + 1) + b"".join(body) + _op(_RETURN, _ALLOW)


def _file_commands() -> list[bytes]:
    """Refuses commands of fcntl, and a size of a pipe beyond what it has; the kernel reads 32 bits of either, and so does this."""
    body = [_op(_LOAD, _ARGUMENTS + 8)]
    for command in _ON_FILES:
        body += [_op(_JUMP_EQUAL, command, 0, 1), _refuse(errno.EPERM)]
    grows = [_op(_LOAD, _ARGUMENTS + 16), _op(_JUMP_GREATER, _PIPE, 0, 1), _refuse(errno.EPERM)]
    return [*body, _op(_JUMP_EQUAL, _SET_PIPE_SIZE, 0, len(grows)), *grows]


def program(machine: str = "", families: Sequence[int] = _FAMILIES) -> bytes:
    """The filter in the form that `bwrap --seccomp` reads, with sockets of these families; `KeyError` for a machine without a table."""
    table = _TABLES[machine or platform.machine()]
    parts = [
        _op(_LOAD, _ARCHITECTURE),
        _op(_JUMP_EQUAL, table.architecture, 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _NUMBER),
    ]
    if table.architecture == 0xC000003E:  # the x32 interface would give every call a second number
        parts += [_op(_JUMP_GREATER_EQUAL, 0x40000000, 0, 1), _refuse(errno.ENOSYS)]
    parts += [_op(_JUMP_EQUAL, number, 0, 1) + _refuse(errno.EPERM) for number in table.denied]
    parts += [_op(_JUMP_EQUAL, number, 0, 1) + _refuse(errno.ENOSYS) for number in table.absent]
    namespaces = [_op(_LOAD, _ARGUMENTS), _op(_JUMP_SET, _NEW_NAMESPACES, 0, 1), _refuse(errno.EPERM)]
    parts.append(_block(table.clone, namespaces))
    parts.append(_block(table.fcntl, _file_commands()))
    known = [_op(_JUMP_EQUAL, family, len(families) - i, 0) for i, family in enumerate(families)]
    for number in table.sockets:
        parts.append(_block(number, [_op(_LOAD, _ARGUMENTS), *known, _refuse(errno.EAFNOSUPPORT)]))
    for number, arguments in table.on_self.items():
        body = []
        for argument in arguments:
            body += [_op(_LOAD, _ARGUMENTS + 8 * argument), _op(_JUMP_EQUAL, 0, 1, 0), _refuse(errno.EPERM)]
        parts.append(_block(number, body))
    return b"".join(parts) + _op(_RETURN, _ALLOW)
