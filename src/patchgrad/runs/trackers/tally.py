"""Where a phase stands, and how that is said."""

from __future__ import annotations

import time
from collections.abc import Mapping


class Tally:
    """Where a phase stands. A bool is counted and told as a share, anything else as its latest value.

    After `add(1, {"solved": True, "turns": 7})` and `add(1, {"solved": False, "turns": 9})` the facts are `solved 50 %, turns 9`.
    """

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.done = name, total, 0
        self.began = time.monotonic()
        self._counted: dict[str, tuple[int, int]] = {}
        self._latest: dict[str, float | str] = {}

    def add(self, n: int, facts: Mapping[str, bool | float | str]) -> None:
        """Some steps were finished."""
        self.done += n
        for key, fact in facts.items():
            if isinstance(fact, bool):
                yes, all_ = self._counted.get(key, (0, 0))
                self._counted[key] = (yes + fact, all_ + 1)
            else:
                self._latest[key] = fact

    @property
    def parts(self) -> list[str]:
        """The shares so far, then the latest values, each with its name."""
        counted, latest = list(self._counted.items()), list(self._latest.items())  # the display reads from a thread of its own
        shares = [f"{key} {100 * yes / all_:.0f} %" for key, (yes, all_) in counted]
        return shares + [f"{key} {_figure(fact)}" for key, fact in latest]

    @property
    def facts(self) -> str:
        """The parts on one line."""
        return ", ".join(self.parts)

    def left(self) -> str:
        """The time that the rest takes at the pace so far: `1:40 left`, or nothing before the first step."""
        if not self.done or self.done >= self.total:
            return ""
        seconds = (time.monotonic() - self.began) * (self.total - self.done) / self.done
        return f"{seconds // 60:.0f}:{seconds % 60:02.0f} left"

    def ended(self) -> str:
        """The line that stays of a phase: `✓ rft  solved 50 %, turns 7  1:40`."""
        return f"{self.mark} {self.name}  {self.facts}  {self.took}"

    @property
    def mark(self) -> str:
        """Was all of it done?"""
        return "✓" if self.done >= self.total else "·"

    @property
    def took(self) -> str:
        """The time since it began: `1:40`."""
        seconds = time.monotonic() - self.began
        return f"{seconds // 60:.0f}:{seconds % 60:02.0f}"


def _figure(fact: float | str) -> str:
    if isinstance(fact, str):
        return fact
    return f"{fact:,.0f}" if abs(fact) >= 1000 else f"{fact:.3g}"
