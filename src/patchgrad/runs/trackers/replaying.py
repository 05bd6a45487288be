"""A tracker of the user's is told of a run that there is: the records of its iterations, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchgrad.contracts import Tracker
from patchgrad.errors import Refused
from patchgrad.recipes.component import Component
from patchgrad.runs.components.construct import conforming
from patchgrad.runs.components.registry import BY_NAME
from patchgrad.store import Run
from patchgrad.values import Evaluated, Measured


def replayed(folder: Path, name: str, options: Mapping[str, Any]) -> int:
    """How many events it was told. `name` is what a recipe would have for it."""
    run, key = Run.open(folder), "--to"
    tracker = conforming(key, BY_NAME.make("trackers", Component(name, options), key, {"folder": folder}), Tracker)
    rows, reports = run.results.metrics(Refused()), tuple(run.results.reports())
    for row in rows:
        tracker.event(Measured(row))
    if reports:
        tracker.event(Evaluated(reports))
    return len(rows) + bool(reports)
