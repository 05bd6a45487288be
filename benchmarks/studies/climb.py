"""The recipe `laptop` on eight seeds that no choice was made on: half of them beside another run, half without AVX-512 and bfloat16.

    python benchmarks/studies/climb.py [--seeds 101,102] [--work runs/climb] [--out docs/studies/climb]

Each seed is run as `make train` runs it, and goes on from the end of its fine-tuning by fine-tuning alone, with as many attempts as RL
has. Their policies are measured on 200 held-out tasks x 4. The even seeds are run two at a time, so two of them are asked for together.
What is there already is not run again. Prints the table, writes it as OUT.json, and prints JSON last.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.runs import finished, kept, said

from patchgrad.evaluation import over_seeds, pooled
from patchgrad.recipes import Recipe, laptop
from patchgrad.runs.api import evaluate
from patchgrad.runs.phases.health import shares
from patchgrad.runs.trackers.terminal import choose
from patchgrad.store import Run, finite, plain, read_reports
from patchgrad.store.files import put
from patchgrad.values import Estimate, Report

SEEDS = range(101, 109)
OLDER = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
"""What torch and oneDNN are told, to leave AVX-512 and bfloat16 alone."""
TASKS, ATTEMPTS = 200, 4
ROUNDS = 2  # of fine-tuning, in the place of RL
POLICIES = ("base", "+ RFT", "+ stage 1 RL", "+ stage 2 RL", "RFT alone")


def older(seed: int) -> bool:
    """Is it run without AVX-512 and bfloat16?"""
    return seed % 4 in (0, 3)


def busy(seed: int) -> bool:
    """Is it run beside another one?"""
    return seed % 2 == 0


def recipe_of(seed: int) -> Recipe:
    """`make train` from this seed."""
    return replace(laptop(), seed=seed)


def alone(recipe: Recipe) -> Recipe:
    """Fine-tuning with the attempts of RL: of 11 iterations x 160 attempts come two more rounds of 88 tasks x 10."""
    tried = sum(stage.iterations * stage.sampling.tasks * stage.sampling.attempts for stage in recipe.stages)
    rft, tasks = recipe.rft, -(-tried // (ROUNDS * recipe.rft.attempts))
    return replace(recipe, rft=replace(rft, rounds=rft.rounds + ROUNDS, tasks=tasks), stages=())


def run_one(seed: int, beside: str, work: Path, out: Path) -> None:
    """One seed in this process, `beside` that of another one or none; what is kept of it goes to `out`."""
    recipe = recipe_of(seed)
    tuned = finished(work / f"{seed}-rft", replace(recipe, stages=()))
    whole = Run.open(finished(work / f"{seed}", recipe, tuned))
    further = Run.open(finished(work / f"{seed}-alone", alone(recipe), tuned))
    policies = [(whole, name) for name in whole.state()["kept"]] + [(further, further.state()["kept"][-1])]
    reports = [_measured(run, recipe, policy, name) for (run, policy), name in zip(policies, POLICIES, strict=True)]
    told = {
        "seed": seed,
        "processor": "AVX2" if OLDER.items() <= os.environ.items() else "all that it has",
        "load": f"beside seed {beside}" if beside else "idle",
        "minutes": whole.results.reports()[-1].seconds / 60,
        "recipe": said(recipe),
        "choice": whole.state()["choice"],
        "reports": [plain(one) for one in reports],
        "metrics": whole.results.metrics(),
        "metrics_alone": further.results.metrics(),
    }
    put(out / f"{seed}.json", json.dumps(finite(told)).encode() + b"\n")


def _measured(run: Run, recipe: Recipe, checkpoint: str, name: str) -> Report:
    more = replace(recipe, tasks=replace(recipe.tasks, held_out=TASKS), evaluation=replace(recipe.evaluation, attempts=ATTEMPTS))
    with choose(quiet=False) as progress:
        report = evaluate(run, more, checkpoint, progress)
    policy = f"{run.folder.name}/checkpoints/{checkpoint}"  # where the folder lies on this machine is nobody's concern
    return replace(report, name=name, about={**report.about, "policy": policy})


def started(seeds: Sequence[int], given: Any) -> None:
    """These seeds at the same time, each in a process of its own with the instructions that it is to have."""
    command = [sys.executable, __file__, "--work", str(given.work), "--out", str(given.out), "--here"]
    begun = []
    for seed in seeds:
        beside = ["--beside", *(str(other) for other in seeds if other != seed)] if len(seeds) > 1 else []
        environment = os.environ | (OLDER if older(seed) else {})
        begun.append(subprocess.Popen([*command, "--seeds", str(seed), *beside], env=environment))
    codes = [one.wait() for one in begun]
    if any(codes):
        raise SystemExit("A seed did not come to its end: see above. The same command goes on.")


def table(out: Path) -> dict[str, Any]:
    """A row a seed, what each policy adds to the one before in all of them, and what RL adds to fine-tuning alone."""
    told = kept(out, SEEDS, laptop())
    found = {seed: dict(zip(POLICIES, read_reports(out / f"{seed}.json"), strict=True)) for seed in told}
    rows = [_row(told[seed], found[seed]) for seed in told]
    means = {name: over_seeds([found[seed][name].pass_at_1.mean for seed in found]) for name in POLICIES}
    pairs = [*pairwise(POLICIES[:4]), ("RFT alone", "+ stage 2 RL")]
    steps = [step(first, second, found) for first, second in pairs]
    for row in rows:
        print(*row.values(), sep="  ")
    for name, mean in means.items():
        print(f"{name:14} {percent(mean)}")
    for one in steps:
        print(one["sentence"])
    return {"rows": rows, "means": {name: plain(mean) for name, mean in means.items()}, "steps": steps}


def _row(kept: Mapping[str, Any], reports: Mapping[str, Report]) -> dict[str, Any]:
    last = reports["+ stage 2 RL"]
    told = {"submitted": last.submitted.mean, "turns": last.turns, "episodes": last.tasks * last.attempts, "failures": last.failures}
    shown = {name: f"{100 * one.pass_at_1.mean:.1f} +- {100 * one.pass_at_1.error:.1f}" for name, one in reports.items()}
    health = {name: round(100 * share, 1) for name, share in shares(told).items()}
    return {name: kept[name] for name in ("seed", "processor", "load")} | {"minutes": round(kept["minutes"], 1)} | shown | health


def step(first: str, second: str, found: Mapping[int, Mapping[str, Report]]) -> dict[str, Any]:
    """What the second policy solves more than the first, paired over tasks and seeds, and as a mean over seeds."""
    one, other = ({seed: reports[name] for seed, reports in found.items()} for name in (first, second))
    paired = pooled(one, other)
    seeds = over_seeds([other[seed].pass_at_1.mean - one[seed].pass_at_1.mean for seed in found])
    told = f"{second} - {first}: {percent(paired.difference)}, p = {paired.p_value:.2g}; over seeds {percent(seeds)}"
    return {"first": first, "second": second, "sentence": told, **plain(paired), "over_seeds": plain(seeds)}


def percent(value: Estimate) -> str:
    """`48.4 +- 4.7 (37.3 to 59.5)`: mean, standard error and interval."""
    return f"{100 * value.mean:.1f} +- {100 * value.error:.1f} ({100 * value.low:.1f} to {100 * value.high:.1f})"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    options.add_argument("--work", type=Path, default=Path("runs/climb"))
    options.add_argument("--out", type=Path, default=Path("docs/studies/climb"))
    options.add_argument("--here", action="store_true", help="in this process, whatever its instructions and load")
    options.add_argument("--beside", default="", help="with --here: the seed that is run at the same time")
    given = options.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    given.out.mkdir(parents=True, exist_ok=True)
    asked = [seed for seed in map(int, given.seeds.split(",")) if not (given.out / f"{seed}.json").exists()]
    if given.here:
        for seed in asked:
            run_one(seed, given.beside, given.work, given.out)
        return
    pairs = [seed for seed in asked if busy(seed)]
    if len(pairs) % 2:
        options.error(f"seed {pairs[-1]} is run beside another even one: ask for two of them")
    for together in ([seed] for seed in asked if not busy(seed)):
        started(together, given)
    for at in range(0, len(pairs), 2):
        started(pairs[at : at + 2], given)
    found = table(given.out)
    put(given.out.with_suffix(".json"), json.dumps(finite(found), indent=1).encode() + b"\n")
    tell(finite(found))


if __name__ == "__main__":
    main()
