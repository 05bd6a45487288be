"""How verbs that make tasks tell of it."""

from __future__ import annotations

from collections.abc import Mapping

from patchgrad.contracts import Tracker
from patchgrad.values import Advanced, Note, PhaseBegan


class Told:
    """Progress a source: a bar of tasks, with the time that the rest takes at this pace."""

    def __init__(self, tracker: Tracker, verb: str, count: int) -> None:
        self._tracker, self._verb, self._count, self._source = tracker, verb, count, ""

    def __call__(self, source: str, tasks: int, tried: int, fate: str) -> None:
        if source != self._source:
            self._source = source
            self._tracker.event(PhaseBegan(f"{self._verb} {source}", self._count))
        self._tracker.event(Advanced(int(fate == "task"), {"valid": fate == "task", "tried": float(tried)}))
        self._tracker.event(Note(f"the last candidate: {fate}"))


def listed(counts: Mapping[str, int]) -> str:
    """Reasons with their counts, most frequent first: `{"merge": 2, "no tests": 9}` -> `9 no tests, 2 merge`."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
