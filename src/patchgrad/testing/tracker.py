"""What every tracker must hold, as one function that its author runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

from patchgrad.contracts import Tracker
from patchgrad.values import Advanced, Estimate, Evaluated, Event, Measured, Note, PhaseBegan, Report

_ONE = Estimate(0.39, 0.02, 0.35, 0.43)
_PLAIN = Report("base", 10, 2, _ONE, _ONE, _ONE, 7.5, 310.0, 60.0, {"turns": 40.0}, {"a": 2}, {"submitted": 19})
_UNKNOWN = Report(
    "none", 0, 0, *(Estimate(math.nan, math.nan),) * 3, math.nan, math.nan, 0.0, {}, {}, {}, outcomes={"a": (True, None, False)}
)
_RECORD = {"iteration": 3, "loss": 0.5, "grad_norm": math.inf, "phase": "rl 1", "skipped": False, "stops": {"submitted": 2}, "none": None}

EVENTS: tuple[Event, ...] = (
    Advanced(),
    Note("before any phase"),
    PhaseBegan("collect", 3),
    Advanced(1, {"solved": True, "turns": 7, "task": "a", "loss": math.nan}),
    Note("two\nlines of [bold]text[/bold], \x1b[31mred\x1b[0m and 漢字"),
    Advanced(5, {"solved": False, "turns": 1e9}),
    Measured(_RECORD),
    Measured({}),
    PhaseBegan("", 0),
    Advanced(0),
    Evaluated(()),
    Evaluated((_PLAIN, _UNKNOWN)),
    PhaseBegan("[evaluate] \\[x]", 2),
    Note(""),
    Note("a decision\nof a [run]", stays=True),
)
"""Events of every kind, odd ones among them, in an order that no run has."""


def check_tracker(make: Callable[[], Tracker]) -> None:
    """Raises `AssertionError` for the first rule that a tracker breaks; `make` gives a fresh one each time, ready to be told.

    It takes every kind of event, in any order and any number, with facts that are no numbers and words of any kind: an event is never an
    exception, since telling must not end a run. It gives nothing back, and changes no event.
    """
    missing = set(get_args(Event)) - {type(event) for event in EVENTS}
    assert not missing, f"the check has no example of {sorted(kind.__name__ for kind in missing)}"
    before = [repr(event) for event in EVENTS]
    for events in (EVENTS, EVENTS[::-1], *((event, event) for event in EVENTS)):
        tracker = make()
        for event in events:
            try:
                tracker.event(event)
            except Exception as error:
                raise AssertionError(f"an event is never an exception, and {event!r} raised {error!r}") from error
    assert [repr(event) for event in EVENTS] == before, "a tracker changes no event"
