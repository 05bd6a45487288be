"""A tracker that is told from a thread of its own, so that the run waits for none."""

from __future__ import annotations

import logging
import queue
import threading

from patchgrad.contracts import Tracker
from patchgrad.values import Event

WAITING = 10_000
"""Events that a slow tracker may be behind."""

SECONDS = 10.0
"""In which it has to be done when the run is."""

log = logging.getLogger(__name__)


class Beside:
    """Hands events on in their order. A tracker that fails, or is too far behind, is told nothing more, and that is said once."""

    def __init__(self, tracker: Tracker, waiting: int = WAITING) -> None:
        self._tracker, self._over = tracker, False
        self._events: queue.Queue[Event | None] = queue.Queue(waiting)
        self._thread = threading.Thread(target=self._hand_on, name=f"tracker {type(tracker).__name__}", daemon=True)
        self._thread.start()

    def event(self, event: Event) -> None:
        if not self._over:
            try:
                self._events.put_nowait(event)
            except queue.Full:
                self._end(f"is {self._events.maxsize:,} events behind")

    def close(self, seconds: float = SECONDS) -> None:
        """It is told what is left, as far as it takes that in this time."""
        if not self._over:
            try:
                self._events.put(None, timeout=seconds)
                self._thread.join(seconds)
            except queue.Full:
                pass
            if self._thread.is_alive():
                self._end(f"was not done {seconds:.0f} s after the run")

    def _hand_on(self) -> None:
        while (event := self._events.get()) is not None and not self._over:
            try:
                self._tracker.event(event)
            except Exception as error:
                self._end(f"failed ({error!r})")

    def _end(self, why: str) -> None:
        if not self._over:
            self._over = True
            log.warning("The tracker %s %s and is told nothing more.", type(self._tracker).__name__, why)
