"""What processes elsewhere have computed: each says so with its signs of life, and whoever hears them keeps account."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

Work = Literal["sampling", "training"]


@dataclass(frozen=True, slots=True)
class Spent:
    """Core-seconds of a process since it began, and those in which the cores of its machine were busy since that began."""

    process: str
    machine: str
    cores: int
    own: float
    busy: float


@dataclass(frozen=True, slots=True)
class Account:
    """Core-seconds of all processes that were heard, by their work, and of machines other than this one: `busy`, and how many cores."""

    sampling: float = 0.0
    training: float = 0.0
    busy: float = 0.0
    cores: int = 0


class Spending:
    """The account of those who were heard since this began. A process that is lost has computed what it said last.

    Of another machine, and of a process there, what was before it was heard first does not count: neither was seen.

    >>> spending = Spending()
    >>> spending.heard("training", Spent("a rank", "another", cores=4, own=2.0, busy=100.0))
    >>> spending.heard("training", Spent("a rank", "another", cores=4, own=5.0, busy=104.0))
    >>> spending.account()
    Account(sampling=0.0, training=3.0, busy=4.0, cores=4)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: dict[tuple[Work, str, str], tuple[float, float]] = {}  # what it had when it was heard first, and last
        self._machines: dict[str, tuple[Spent, Spent, float]] = {}  # first and newest, and when that was

    def heard(self, work: Work, spent: Spent | None) -> None:
        """A process says what it has computed so far, or nothing."""
        if spent is None:
            return
        with self._lock:
            key = work, spent.machine, spent.process
            begun, last = self._own.get(key, (0.0 if spent.machine == machine() else spent.own, 0.0))
            self._own[key] = begun, max(last, spent.own)  # one that was overtaken on the way takes nothing away
            if spent.machine != machine():
                first, newest, _ = self._machines.get(spent.machine, (spent, spent, 0.0))
                newest = replace(spent, busy=max(newest.busy, spent.busy), cores=max(newest.cores, spent.cores))
                self._machines[spent.machine] = first, newest, time.monotonic()

    def account(self, since: float = 0.0) -> Account:
        """Up to now. Cores are those of machines that were heard `since` this time of the monotonic clock."""
        with self._lock:
            by_work: Mapping[Work, float] = {
                work: sum(last - begun for (of, *_), (begun, last) in self._own.items() if of == work) for work in ("sampling", "training")
            }
            machines = self._machines.values()
            busy = sum(newest.busy - first.busy for first, newest, _ in machines)
            return Account(by_work["sampling"], by_work["training"], busy, sum(one.cores for _, one, at in machines if at >= since))


def spent() -> Spent | None:
    """What this process has; nothing where that cannot be read, as without a free descriptor: it is alive all the same."""
    try:
        return _spent()
    except OSError:
        return None


def _spent() -> Spent:
    return Spent(f"{os.getpid()}-{KNOWN_BY}", machine(), cores(), time.process_time(), busy())


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def busy() -> float:
    """Seconds that all cores of this machine have worked since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


@cache
def machine() -> str:
    """What no other machine has, and what every container of this one has."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


KNOWN_BY = secrets.token_hex(4)
"""Beside its number, which processes of two containers may share."""

ELSEWHERE = Spending()
"""Of the processes that this one hears: its own seconds are the kernel's to count, and this is the same for others."""
