"""Who may open a sandbox now: as long as the host has memory to spare, and nobody waits for memory.

A fixed number is too many on a small machine and too few on a large one, and knows nothing of what else runs there. So two readings of
the kernel decide: `MemAvailable`, what could be had without swapping, and PSI, the share of the last ten seconds in which somebody
stood still for want of memory (https://docs.kernel.org/accounting/psi.html).
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from patchgrad.waiting import waiting_for

_POLL = 0.2


class Admission:
    """`enter(memory)` waits until a sandbox of that limit may open; the first is always let in, so that work goes on.

    `reserve` bytes stay with the host, and above a memory pressure of `pressure` percent nobody enters. A sandbox is expected to take a
    `share` of its limit, and counts with that for the `young` seconds in which it has not taken it yet; where more is taken than expected,
    the pressure says so. `proc` is where the readings stand.
    """

    def __init__(
        self, reserve: int = 1 << 30, pressure: float = 10.0, share: float = 0.125, young: float = 1.0, proc: Path = Path("/proc")
    ) -> None:
        self._reserve, self._pressure, self._share, self._young, self._proc = reserve, pressure, share, young, proc
        self._inside = 0
        self._promised = 0  # bytes that those who are young are expected to take
        self._order = asyncio.Lock()

    async def enter(self, memory: int) -> None:
        expected = int(self._share * memory)
        with waiting_for("memory"):
            await self._in_turn(expected)
        self._promised += expected
        asyncio.get_running_loop().call_later(self._young, self._grown, expected)

    async def _in_turn(self, expected: int) -> None:
        async with self._order:  # in the order of asking, or a large one would wait for ever
            while self._inside and not self._room(expected):
                await asyncio.sleep(_POLL)
            self._inside += 1

    def leave(self) -> None:
        """One of those inside is done."""
        self._inside -= 1

    def room(self, memory: int) -> bool:
        """Would one more of this limit be let in? Where a reading is missing, it does not decide."""
        return self._room(int(self._share * memory))

    def _room(self, expected: int) -> bool:
        available = _number(self._proc / "meminfo", r"^MemAvailable:\s+(\d+) kB")
        pressure = _number(self._proc / "pressure" / "memory", r"^some avg10=([\d.]+)")
        spare = available is None or available * 1024 - self._promised - expected >= self._reserve
        return spare and (pressure is None or pressure <= self._pressure)

    def _grown(self, expected: int) -> None:
        self._promised -= expected


def _number(path: Path, pattern: str) -> float | None:
    try:
        found = re.search(pattern, path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return float(found[1]) if found else None
