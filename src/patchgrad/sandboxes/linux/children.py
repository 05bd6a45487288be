"""What a warden starts and listens to: processes with an output pipe, perhaps a report pipe, and a handle on their end."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence

REPORT_CAP = 8 << 20
OUT_OF_MEMORY = b"\nKilled: out of memory, the processes of this sandbox together held more than its limit.\n"
OUT_OF_MEMORY_BEFORE = b"Killed before this command: out of memory, the processes of this sandbox together held more than its limit.\n"
_HIGH = 64  # our own descriptors live above those that a child is given
_CHUNK = 1 << 16


class Output:
    """Keeps the head and the tail of what a pipe says, within `cap` bytes."""

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 8 * self._half + _CHUNK:
            del self._tail[: -self._half]

    def take(self) -> tuple[bytes, bool]:
        """The text, and whether anything was cut from its middle."""
        cut = self._total - len(self._head) - self._half
        if cut <= 0:
            return bytes(self._head + self._tail), False
        return bytes(self._head) + b"\n[... %d bytes cut ...]\n" % cut + bytes(self._tail[-self._half :]), True


class Child:
    """One process that the nest asked for: the agent's shell or an `exec`. `ended` is called once, when it is over."""

    def __init__(self, pid: int, output: int, report: int | None, cap: int) -> None:
        self.pid = pid
        self.handle = os.pidfd_open(pid)
        self.pipes = {output: self._add_output}
        if report is not None:
            self.pipes[report] = self._add_report
        self._cap = cap
        self._output = Output(cap)
        self.report = bytearray()

    def _add_output(self, data: bytes) -> None:
        self._output.add(data)

    def _add_report(self, data: bytes) -> None:
        self.report += data[: max(0, REPORT_CAP - len(self.report))]

    def bound(self, cap: int) -> None:
        """So many bytes of output are kept from now on."""
        self._cap = cap
        self._output = Output(cap)

    def say(self, text: bytes) -> None:
        """Adds a line of the warden's own to the output."""
        self._output.add(text)

    def read(self, descriptor: int) -> bool:
        """Takes what a pipe holds now; false when all writers are gone."""
        return drain(descriptor, self.pipes[descriptor])

    def take(self) -> tuple[bytes, bool, bytes]:
        """All that was said since the last time: text, was it cut, report. What follows belongs to the next command."""
        for descriptor in self.pipes:
            self.read(descriptor)
        text, cut = self._output.take()
        self._output = Output(self._cap)
        return text, cut, bytes(self.report)

    def close(self) -> None:
        for descriptor in (self.handle, *self.pipes):
            os.close(descriptor)


def pipe() -> tuple[int, int]:
    """A pipe whose reading end does not block, both ends out of the range that children are given."""
    reader, writer = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _HIGH) for end in (reader, writer)]
    os.close(reader)
    os.close(writer)
    os.set_blocking(high[0], False)
    return high[0], high[1]


def holding(content: bytes) -> int:
    """A standard input that holds `content`, so that nobody must feed it: a full pipe, or a file in memory where that is too small.

    A pipe is empty when it was read. What is in a file can be read again by any code that runs later, so no secret may be that long.
    """
    if not content:
        return os.open(os.devnull, os.O_RDONLY)
    reader, writer = os.pipe()
    with open(writer, "wb", buffering=0) as end:
        if len(content) <= fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ):
            end.write(content)
            return reader
    os.close(reader)
    file = os.memfd_create("stdin")
    with open(file, "wb", closefd=False) as end:
        end.write(content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def spawn(argv: Sequence[str], environment: Mapping[str, str], descriptors: Mapping[int, int]) -> int:
    """Starts a program, found on the PATH it is given, with these descriptors and no others; `FileNotFoundError` where there is none.

    Not a fork: copying our page table costs more than the program.
    """
    path = shutil.which(argv[0], path=environment.get("PATH"))
    if path is None:
        raise FileNotFoundError(f"there is no {argv[0]} on the PATH {environment.get('PATH')}")
    actions = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in descriptors.items()]
    defaults = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT]
    return os.posix_spawn(path, list(argv), dict(environment), file_actions=actions, setpgroup=0, setsigmask=(), setsigdef=defaults)


def drain(descriptor: int, take: Callable[[bytes], None]) -> bool:
    """Passes on what a non-blocking pipe holds, at most its capacity; false at the end of file."""
    for _ in range(32):
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        take(data)
        if len(data) < _CHUNK:
            return True
    return True
