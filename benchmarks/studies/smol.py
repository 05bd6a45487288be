"""The recipe `smol-long` over seeds: does a language model of 135 million parameters learn to repair real packages that no training saw?

    python benchmarks/studies/smol.py [--seeds 1,2,3] [--work runs/smol] [--out docs/studies/smol] [--scratch runs/climb/101,runs/climb/103]

A run that was interrupted goes on. With `--scratch` the last policies of these runs of `laptop` solve the same held-out packages. Pass@1 is
told of each kind of task, and what a phase adds is paired over tasks and seeds. Prints the table, writes it as OUT.json, and prints JSON
last.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.runs import finished, kept, said
from benchmarks.studies.climb import percent, step
from benchmarks.studies.study import of

from patchgrad.config import loads
from patchgrad.evaluation import over_seeds, shares
from patchgrad.recipes import Recipe
from patchgrad.recipes.smol import smol_long
from patchgrad.runs.api import evaluate
from patchgrad.runs.trackers.terminal import choose
from patchgrad.store import Run, finite, plain, read_reports
from patchgrad.store.files import put
from patchgrad.values import Report

SEEDS = (1, 2, 3)
ATTEMPTS = 4
PHASES = ("base", "+ RFT", "+ stage 1 RL", "+ stage 2 RL")
SCRATCH = "a network from scratch"
KINDS: Mapping[str, Callable[[str], bool]] = {
    "packages": lambda task: not task.startswith("workshop:"),
    "packages, one bug": lambda task: not task.startswith("workshop:") and "+" not in task,
    "generated": lambda task: task.startswith("workshop:"),
}


def recipe_of(seed: int) -> Recipe:
    """`patchgrad train smol-long` from this seed, measured on four attempts a task."""
    recipe = smol_long()
    return replace(recipe, seed=seed, evaluation=replace(recipe.evaluation, attempts=ATTEMPTS))


def run_one(seed: int, scratch: Path | None, work: Path, out: Path) -> None:
    """One seed; what is kept of it goes to `out`."""
    recipe = recipe_of(seed)
    run = Run.open(finished(work / f"{seed}", recipe))
    reports = [_without_paths(report, run.folder.name) for report in run.results.reports()]
    if scratch is not None:
        reports.append(_without_paths(_scratch(scratch, recipe), scratch.name))
    told = {
        "seed": seed,
        "minutes": run.results.reports()[-1].seconds / 60,
        "recipe": said(recipe),
        "choice": run.state()["choice"],
        "reports": [plain(one) for one in reports],
        "metrics": run.results.metrics(),
    }
    put(out / f"{seed}.json", json.dumps(finite(told)).encode() + b"\n")


def _scratch(folder: Path, recipe: Recipe) -> Report:
    """The last policy of a run of `laptop` at the held-out packages, with the agent and the limits that it was trained with."""
    run = Run.open(folder)
    own = loads(Recipe, run.recipe)
    asked = replace(own, tasks=replace(recipe.tasks, held_out_generated=0), evaluation=replace(own.evaluation, attempts=ATTEMPTS))
    with choose(quiet=False) as progress:
        return replace(evaluate(run, asked, run.state()["kept"][-1], progress), name=SCRATCH)


def _without_paths(report: Report, run: str) -> Report:
    """Where the folders lie on this machine is nobody's concern."""
    return replace(report, about={name: Path(value).name if "/" in value else value for name, value in report.about.items()} | {"run": run})


def table(out: Path) -> dict[str, Any]:
    """A row a seed and a kind of task, and what each phase adds to the one before in all seeds."""
    found = kept(out, SEEDS, recipe_of(SEEDS[0]))
    reports = {seed: {one.name: one for one in read_reports(out / f"{seed}.json")} for seed in found}
    return {"minutes": {seed: found[seed]["minutes"] for seed in found}} | {kind: _of_kind(kind, reports) for kind in KINDS}


def _of_kind(kind: str, reports: Mapping[int, Mapping[str, Report]]) -> dict[str, Any]:
    found = {
        seed: {name: of(one, [task for task in shares(one) if KINDS[kind](task)]) for name, one in every.items()}
        for seed, every in reports.items()
    }
    found = {seed: {name: one for name, one in every.items() if one.outcomes} for seed, every in found.items()}
    names = [name for name in (*PHASES, SCRATCH) if all(name in every for every in found.values())]
    rows = {name: _row(name, [every[name] for every in found.values()]) for name in names}
    pairs = [*pairwise(name for name in names if name != SCRATCH), *([(SCRATCH, PHASES[-1])] if SCRATCH in names else [])]
    steps = [step(first, second, found) for first, second in pairs]
    for one in steps:
        print(kind, one["sentence"])
    return {"rows": rows, "steps": steps}


def _row(name: str, reports: Sequence[Report]) -> dict[str, Any]:
    """Pass@1 of each seed, and the mean over seeds of it and of Pass@4."""
    each = [list(shares(one).values()) for one in reports]
    first = over_seeds([sum(values) / len(values) for values in each])
    some = over_seeds([sum(value > 0 for value in values) / len(values) for values in each])
    print(name, *(f"{100 * sum(values) / len(values):.1f}" for values in each), percent(first), percent(some), sep="  ")
    return {"pass_at_1": [sum(values) / len(values) for values in each], "mean": plain(first), f"pass_at_{ATTEMPTS}": plain(some)}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    options.add_argument("--work", type=Path, default=Path("runs/smol"))
    options.add_argument("--out", type=Path, default=Path("docs/studies/smol"))
    options.add_argument("--scratch", default="", help="runs of laptop, one for each seed")
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    given.out.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in given.seeds.split(",")]
    scratch: list[Path | None] = [Path(name) for name in given.scratch.split(",") if name] or [None] * len(seeds)
    if len(scratch) != len(seeds):
        options.error(f"--scratch names {len(scratch)} runs for {len(seeds)} seeds: name one for each")
    for seed, beside in zip(seeds, scratch, strict=True):
        if not (given.out / f"{seed}.json").exists():
            run_one(seed, beside, given.work, given.out)
    found = table(given.out)
    put(given.out.with_suffix(".json"), json.dumps(finite(found), indent=1).encode() + b"\n")
    tell(finite(found))


if __name__ == "__main__":
    main()
