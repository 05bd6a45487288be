"""In what sandboxes the attempts of a run are made: kept in its folder, and compared when it goes on."""

from __future__ import annotations

from patchgrad.contracts import ENFORCED, Sandboxes, Tracker
from patchgrad.sandboxes.programs import changed
from patchgrad.store import Run
from patchgrad.values import Note


def keep_sandbox(run: Run, boxes: Sandboxes, tracker: Tracker) -> None:
    """The run keeps what these sandboxes enforce and which programs they have. A person is told of programs that are others than before."""
    now, before = boxes.probe(), run.about.read().get("sandbox", {}).get("programs", {})
    if before and (told := changed(before, now.programs)):
        tracker.event(
            Note(f"Sandboxes have other programs than when this run began: {told}. Their answers may differ from here on.", stays=True)
        )
    run.about.write_sandbox(now.name, now.missing(ENFORCED), now.programs)
