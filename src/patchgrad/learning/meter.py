"""Core-seconds by phase."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from patchgrad.links.spending import ELSEWHERE, Account, Spending, busy, cores
from patchgrad.values import Group


@dataclass(frozen=True, slots=True)
class _Mark:
    """The clock, and what was computed up to it: by this process, on this machine, and elsewhere."""

    clock: float
    own: float
    busy: float
    elsewhere: Account


class Meter:
    """Core-seconds by phase, from the kernel's own counters.

    This process samples and trains. So do replicas, hosts of attempts and ranks, which say what they compute (`links/spending.py`); how
    much that is at the end of a phase is known to some seconds. The sandboxes are everybody else's time, on all of these machines, so
    another busy program there counts as theirs. `tools` and `tests` share that time as their waiting times do. `wall` and `learning`, its
    part after the attempts, are on the clock.
    """

    def __init__(self, elsewhere: Spending = ELSEWHERE) -> None:
        self._elsewhere = elsewhere
        self._marks = [self._mark()]

    def _mark(self) -> _Mark:
        return _Mark(time.monotonic(), time.process_time(), busy(), self._elsewhere.account())

    def lap(self) -> None:
        """A phase ends: first that of the attempts, and then that of learning."""
        self._marks.append(self._mark())

    def usage(self, groups: Sequence[Group]) -> dict[str, float]:
        """Seconds by phase, and `cores_busy`, the share of all cores of all machines."""
        begun, collected, ended = self._marks[0], self._marks[1], self._marks[-1]
        tools = sum(turn.observation.seconds for g in groups for r in g.rollouts for turn in r.trajectory.turns)
        tests = sum(r.verdict.seconds for g in groups for r in g.rollouts)
        far = ended.elsewhere
        sampling, training = far.sampling - begun.elsewhere.sampling, far.training - begun.elsewhere.training
        wall = ended.clock - begun.clock
        whole = (cores() + self._elsewhere.account(begun.clock).cores) * wall
        busy = min(ended.busy - begun.busy + far.busy - begun.elsewhere.busy, whole)
        outside = max(0.0, busy - (ended.own - begun.own) - sampling - training)
        return {
            "sampling": collected.own - begun.own + sampling,
            "tools": outside * tools / (tools + tests or 1.0),
            "tests": outside * tests / (tools + tests or 1.0),
            "training": ended.own - collected.own + training,
            "idle": whole - busy,
            "wall": wall,
            "learning": ended.clock - collected.clock,
            "cores_busy": busy / (whole or 1.0),
        }
