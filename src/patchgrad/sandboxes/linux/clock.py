"""How much of its time a command has had: a crowded machine stops the clock, a sleeping command does not.

A limit on wall time fails commands because the neighbours were busy; a limit on CPU time never ends one that sleeps. This clock runs at
the pace of CPU time while some process of the cell is runnable, and with the wall while all of them wait for something else than a core.
It is read ten times a second from /proc by the warden, which sees the cell's processes and no others.

    200 ms of wall, one process computing alone           0.2 s
    200 ms of wall, one process with an eighth of a core  0.025 s
    200 ms of wall, everybody asleep                      0.2 s
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

_FIRST = 0.1  # seconds of work that the time before the first tick counts as: most commands do not live to see it, so nothing is read at 0
_TICKS, _PAGE = float(os.sysconf("SC_CLK_TCK")), os.sysconf("SC_PAGE_SIZE")


class Processes:
    """What the cell's processes are doing: is one of them runnable, the CPU seconds of all, the memory each has in its page tables."""

    def __init__(self, runnable: bool, spent: float, resident: dict[int, int]) -> None:
        self.runnable, self.spent, self.resident = runnable, spent, resident

    def hold(self, limit: int) -> bool:
        """Is it more than `limit` bytes? What several share is shared out among them, but only where it decides: that costs a walk."""
        return sum(self.resident.values()) > limit and sum(_proportional(pid, size) for pid, size in self.resident.items()) > limit


class Clock:
    """`used` is the time counted so far, `cpu` what was computed in it, both in seconds; `tick` brings them up to date.

    Who fools it, with work in processes too short to be seen, meets the wall.
    """

    def __init__(self) -> None:
        self.start = self._last = time.monotonic()
        self.used = self.cpu = 0.0
        self._spent: float | None = None

    def tick(self, processes: Processes) -> float:
        """`processes` is what `look` saw just now."""
        now = time.monotonic()
        passed, self._last = now - self._last, now
        before, self._spent = self._spent, processes.spent
        first = _FIRST if processes.runnable else 0.0
        worked = first if before is None else max(0.0, processes.spent - before)
        self.cpu += worked
        self.used += min(passed, worked) if processes.runnable else passed
        return self.used


def look(processes: Iterable[int] | None = None) -> Processes:
    """One pass over /proc, or over these. The seconds include those of processes that have ended and were waited for."""
    runnable, ticks = False, 0
    resident: dict[int, int] = {}
    for name in os.listdir("/proc") if processes is None else map(str, processes):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if name == "1":  # the warden: what its children used, not what it uses
                ticks += int(fields[13]) + int(fields[14])
                continue
        except OSError:
            continue
        runnable = runnable or fields[0] in (b"R", b"D")
        ticks += sum(int(field) for field in fields[11:15])
        holder, size = int(name), int(fields[21]) * _PAGE
        if not size and int(fields[17]) > 1:  # its first thread has ended, and the memory is shown at the others
            holder, size = _of_threads(holder)
        resident[holder] = size
    return Processes(runnable, ticks / _TICKS, resident)


def _of_threads(pid: int) -> tuple[int, int]:
    """A thread of the process that is still there, and the bytes it shows."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{name}/stat", "rb") as file:
                if pages := int(file.read().rpartition(b")")[2].split()[21]):
                    return int(name), pages * _PAGE
    return pid, 0


def _proportional(pid: int, size: int) -> int:
    """A process's own memory and its part of what it shares, shared files of no name included.

    It is nothing where the process has ended meanwhile, and `size` where it does not let itself be read.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except (OSError, StopIteration):
        return size


def spent(pid: int) -> float:
    """CPU seconds of a process and of those it has waited for; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / _TICKS
