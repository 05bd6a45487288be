"""A run as its reader has it: the folder, and its results as a table."""

from __future__ import annotations

from patchgrad import store
from patchgrad.evaluation import aligned, details


class Run(store.Run):
    """A run's folder: `Run.open("runs/smoke")` reads one, finished or not; `patchgrad.train` returns one.

        run = Run.open("runs/smoke")
        print(run.table())                       # Pass@1 of each policy, with its error and interval
        run.results.metrics()[-1]["reward"]           # of the last iteration
        run.rollouts.read("stage1")[0].trajectory     # every attempt of a phase, turn by turn

    Raises `StoreError` for a folder that is none, or is damaged.
    """

    def table(self) -> str:
        """A row for each policy that was measured, and below them the details of the last one; a sentence where none was yet."""
        reports = self.results.reports()
        if not reports:
            return f"{self.folder} has no evaluation yet."
        return "\n".join([aligned(reports), "", *details(reports[-1])])
