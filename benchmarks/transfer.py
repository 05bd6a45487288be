"""Do the policies of a run get better on real packages that no training saw? Paired over tasks, each checkpoint against the first.

    python benchmarks/transfer.py runs/laptop [--set sets/real] [--count 40] [--attempts 4] [--families op_swap,cmp_negate]

Makes a set of planted bugs in the held-out packages (`patchgrad.tasks.packages`) if there is none, then evaluates every checkpoint of
the run on it, with the statement level `brief`. Prints progress, and JSON last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from patchgrad.config import loads
from patchgrad.evaluation import compare, shares
from patchgrad.recipes import Recipe, evaluate
from patchgrad.store import Run, plain
from patchgrad.tasks.forge import LocalRunner, forge, toolchain
from patchgrad.tasks.packages import PACKAGES, fetch
from patchgrad.tasks.sets import TASKS
from patchgrad.tasks.workshop.bugs import SWAPS
from patchgrad.viewer.progress import choose


def make_set(folder: Path, count: int, families: Sequence[str]) -> None:
    """`count` tasks of each held-out package."""
    cache = Path.home() / ".cache" / "patchgrad"
    runner = LocalRunner(toolchain(cache))
    try:
        for package in PACKAGES:
            if package.split == "held_out":
                files = fetch(package, cache)
                made, fell = asyncio.run(forge(package, files, count, 0, runner, folder, quiet=True, families=families))
                print(f"{package.id}: {len(made)} tasks; no task because {dict(fell)}", flush=True)
    finally:
        runner.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--set", type=Path, default=Path("sets/real"))
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument("--families", default=",".join(SWAPS))
    given = parser.parse_args()
    if not (given.set / TASKS).exists():
        make_set(given.set, given.count, given.families.split(","))
    run = Run.open(Path(given.run))
    recipe = loads(Recipe, run.recipe)
    recipe = replace(
        recipe,
        tasks=replace(recipe.tasks, source="set", folder=str(given.set), level="brief", held_out=10_000),
        evaluation=replace(recipe.evaluation, attempts=given.attempts),
    )
    reports = []
    for checkpoint in sorted(run.checkpoints(), key=lambda path: path.stat().st_mtime):
        with choose(quiet=False) as progress:
            reports.append(evaluate(run, recipe, checkpoint.name, progress))
        print(checkpoint.name, reports[-1].pass_at_1, flush=True)
    first = shares(reports[0])
    pairs = {report.name: asdict(compare(first, shares(report))) for report in reports[1:]}
    print(json.dumps({"set": str(given.set), "reports": [plain(r) for r in reports], "against": reports[0].name, "difference": pairs}))


if __name__ == "__main__":
    main()
