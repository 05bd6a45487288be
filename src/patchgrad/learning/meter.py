"""Core-seconds by phase."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from patchgrad.values import Group


class Meter:
    """Core-seconds by phase, from the kernel's own counters.

    This process samples and trains; the sandboxes are everybody else's time, so another busy program on the machine counts as theirs.
    `tools` and `tests` share that time as their waiting times do. `wall` and `learning`, its part after the attempts, are on the clock.
    """

    def __init__(self) -> None:
        self._marks = [(time.monotonic(), time.process_time(), _busy())]
        self._laps: dict[str, tuple[float, float, float]] = {}

    def lap(self, name: str) -> None:
        """End a phase: its wall, own CPU and whole machine's busy seconds are kept under `name`."""
        now, last = (time.monotonic(), time.process_time(), _busy()), self._marks[-1]
        self._laps[name] = (now[0] - last[0], now[1] - last[1], now[2] - last[2])
        self._marks.append(now)

    def usage(self, groups: Sequence[Group]) -> dict[str, float]:
        cores = len(os.sched_getaffinity(0))
        play, learn_ = self._laps["collect"], self._laps.get("learn", (0.0, 0.0, 0.0))
        tools = sum(turn.observation.seconds for g in groups for r in g.rollouts for turn in r.trajectory.turns)
        tests = sum(r.verdict.seconds for g in groups for r in g.rollouts)
        outside = max(0.0, play[2] - play[1])
        wall = play[0] + learn_[0]
        busy = min(play[2] + learn_[2], cores * wall)
        return {
            "sampling": play[1],
            "tools": outside * tools / (tools + tests or 1.0),
            "tests": outside * tests / (tools + tests or 1.0),
            "training": learn_[1],
            "idle": cores * wall - busy,
            "wall": wall,
            "learning": learn_[0],
            "cores_busy": busy / (cores * wall or 1.0),
        }


def _busy() -> float:
    """Seconds that all cores of this machine have worked since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
