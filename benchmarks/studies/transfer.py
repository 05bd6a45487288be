"""Do the policies of a run get better on real packages that no training saw? Paired over tasks, each checkpoint against the first.

    python benchmarks/studies/transfer.py runs/laptop [--set sets/real] [--count 40] [--attempts 4] [--families op_swap,cmp_negate]

Makes a set of planted bugs in the held-out packages (`patchgrad.tasks.projects.catalogue`) if there is none, then evaluates every
checkpoint of the run on it, with the statement level `brief`. Prints progress, and JSON last.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell

from patchgrad.config import loads
from patchgrad.evaluation import compare, shares
from patchgrad.packages import cache
from patchgrad.recipes import Recipe
from patchgrad.recipes.component import Component
from patchgrad.runs.api import evaluate
from patchgrad.runs.trackers.terminal import choose
from patchgrad.store import Run, plain
from patchgrad.tasks.forge import Order
from patchgrad.tasks.making import forge_set
from patchgrad.tasks.projects.catalogue import CATALOGUE
from patchgrad.tasks.sets import TASKS
from patchgrad.tasks.synthetic.bugs import SWAPS


def make_set(folder: Path, count: int, families: Sequence[str]) -> None:
    """`count` tasks of each held-out package, with tests that print little."""
    pins = {pinned.requirement: pinned.sha256 for pinned in CATALOGUE if pinned.split == "held_out"}
    order = Order(count, families=tuple(families), quiet=True, workers=os.cpu_count() or 1)
    for made in forge_set(list(pins), folder, order, cache(), "python benchmarks/studies/transfer.py", pins=pins):
        print(f"{made.source}: {len(made.members)} tasks; no task because {made.error or dict(made.rejected)}", flush=True)


def main() -> None:
    asked = parser(__doc__)
    asked.add_argument("run")
    asked.add_argument("--set", type=Path, default=Path("sets/real"))
    asked.add_argument("--count", type=int, default=40)
    asked.add_argument("--attempts", type=int, default=4)
    asked.add_argument("--families", default=",".join(SWAPS))
    given = asked.parse_args()
    if not (given.set / TASKS).exists():
        make_set(given.set, given.count, given.families.split(","))
    run = Run.open(Path(given.run))
    recipe = loads(Recipe, run.recipe)
    recipe = replace(
        recipe,
        tasks=replace(recipe.tasks, source=Component("set"), folder=str(given.set), level="brief", held_out=10_000),
        evaluation=replace(recipe.evaluation, attempts=given.attempts),
    )
    reports = []
    for checkpoint in sorted(run.checkpoints.all(), key=lambda path: path.stat().st_mtime):
        with choose(quiet=False) as progress:
            reports.append(evaluate(run, recipe, checkpoint.name, progress))
        print(checkpoint.name, reports[-1].pass_at_1, flush=True)
    first = shares(reports[0])
    pairs = {report.name: asdict(compare(first, shares(report))) for report in reports[1:]}
    tell({"set": str(given.set), "reports": [plain(r) for r in reports], "against": reports[0].name, "difference": pairs})


if __name__ == "__main__":
    main()
