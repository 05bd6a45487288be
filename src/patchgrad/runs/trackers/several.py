"""Several trackers as one: a tracker that fails is told of once and left out from then on, and never touches the run."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from patchgrad.contracts import Tracker
from patchgrad.values import Event

log = logging.getLogger(__name__)


class Several:
    """Tells each event to all of them, in order."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = list(trackers)

    def event(self, event: Event) -> None:
        for tracker in list(self._trackers):
            try:
                tracker.event(event)
            except Exception as error:
                self._trackers.remove(tracker)
                log.warning("The tracker %s failed and is told nothing more: %r", type(tracker).__name__, error)
