"""Seconds until a share of held-out tasks is solved: the laptop's recipe, and TRL's GRPO with tools around the same sandboxes.

    python benchmarks/minutes/until.py [--seeds 31,32,33] [--share 0.39] [--times 8] [--iterations 15] [--attempts 2] [--also FILE]

For each seed one base policy is made; all sides go on from it, one after the other, with the machine to themselves: the recipe, which
begins with fine-tuning; its RL alone; and that RL as TRL does it (`until_trl.py`), which makes every call, or is lent what ours remembers
of calls made before in the same state, so that it makes none twice either. TRL is stopped after `--times` the seconds that the recipe took,
and where it has not got there by then its ratios are lower bounds; our RL alone makes so many `--iterations`. Every policy on the way is
measured on the same held-out tasks, and no clock runs meanwhile. What is whole in the work folder is not made again; with `--also` seeds
that a kept file has are told with the others. Prints progress, and JSON last.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import Spread, spread
from benchmarks.library.peers import HEAP, QUIET, ROOT, TRL, Peer
from benchmarks.library.runs import PATIENT, finished

from patchgrad.config import dumps, override
from patchgrad.recipes import Recipe, laptop
from patchgrad.recipes.evaluation import of_run
from patchgrad.runs.measure import measure
from patchgrad.runs.tasks import held_out_tasks
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.values import Task

HERE = Path(__file__).resolve().parent
AROUND = {**QUIET, **HEAP, "PYTHONPATH": str(ROOT / "src")}
TOOLS = Peer("trl-tools", (*TRL.packages, "numba", "pyarrow", "rich"))  # and what patchgrad imports, whose sources are read where they lie
OURS, THEIRS = ("recipe", "rl"), ("trl", "lent")
Point = dict[str, float]


def recipe(seed: int, attempts: int) -> Recipe:
    """The laptop's, which is measured on a hundred tasks after every iteration of RL."""
    told = {"name": "until", "seed": str(seed), "tasks.held_out": "100", "evaluation.attempts": str(attempts)}
    told |= {"evaluation.sample": "100", "evaluation.every": "1"}
    return override(laptop(), PATIENT | told)


def point(seconds: float, attempts: float, solved: float, error: float) -> Point:
    """A policy on the way."""
    return {"seconds": seconds, "attempts": attempts, "pass_at_1": solved, "error": error}


def elapsed(row: Mapping[str, Any]) -> float:
    """All seconds of an iteration but those of measuring and of writing the model: with the probe before it, and its rows and tables."""
    return float(row["seconds"]["wall"] + row["seconds"]["besides"])


def crossed(curve: list[Point], share: float) -> float | None:
    """The seconds of the first policy that solves as much."""
    return next((one["seconds"] for one in curve if one["pass_at_1"] >= share), None)


# --- sides ---------------------------------------------------------------------------------------


def of_recipe(whole: Recipe, base: Path, folder: Path, share: float) -> list[Point]:
    """Fine-tuning, round by round, and RL where that is not enough."""
    before, curve = base, list[Point]()
    for rounds in range(1, whole.rft.rounds + 1):
        part = replace(whole, rft=replace(whole.rft, rounds=rounds), stages=())
        before = finished(folder / f"rft-{rounds}", part, before)
        run = Run.open(before)
        rows, seen = [row for row in run.results.metrics() if row["phase"] == "rft"], run.results.reports()[-1].pass_at_1
        curve.append(point(sum(map(elapsed, rows)), sum(r["episodes"] for r in rows), seen.mean, seen.error))
        if crossed(curve, share) is not None:
            return curve
    return curve + _measured(finished(folder / "whole", whole, before), curve[-1])


def _measured(folder: Path, start: Point) -> list[Point]:
    """The iterations of RL of a run, after what it began with."""
    seconds, attempts, curve = start["seconds"], start["attempts"], []
    for row in Run.open(folder).results.metrics():
        if row["phase"] == "rft":
            continue
        seconds, attempts = seconds + elapsed(row), attempts + row["episodes"]
        curve.append(point(seconds, attempts, row["held_out_pass_at_1"], row["held_out_pass_at_1_se"]))
    return curve


def of_trl(whole: Recipe, base: Path, folder: Path, seconds: float, lent: bool) -> list[Point]:
    """TRL's generations, measured when it is done."""
    sampling = whole.stages[0].sampling
    live = sampling.tasks * sampling.attempts  # all of its attempts live at once
    crowded = replace(whole, sandbox=replace(whole.sandbox, concurrency=live, cache=lent))
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text(dumps(crowded))
        words = [str(folder / "recipe.toml"), str(base / "checkpoints" / "base"), str(seconds), str(folder)]
        program = [TOOLS.python, str(HERE / "until_trl.py"), *words]
        with (folder / "log").open("w") as log:
            ended = subprocess.run(program, env=os.environ | AROUND, stdout=log, stderr=log, check=False)
        if ended.returncode:
            sys.exit(f"TRL ended: {(folder / 'log').read_text().strip()[-800:]}")
        (folder / "done").touch()
    held_out = held_out_tasks(whole, base / "archives")
    return [_told(whole, folder, json.loads(line), held_out) for line in (folder / "steps.jsonl").read_text().splitlines()]


def _told(whole: Recipe, folder: Path, told: dict[str, Any], held_out: list[Task]) -> Point:
    model = folder / str(told["step"])
    if not (kept := model / "measured.json").exists():
        seen = measure(of_run(whole, model), Silent(), tasks=held_out).pass_at_1
        kept.write_text(json.dumps([seen.mean, seen.error]))
    solved, error = json.loads(kept.read_text())
    print(f"TRL, step {told['step']}: {told['seconds']:.0f} s, {100 * solved:.1f} %, {told['stops']}", file=sys.stderr)
    return point(told["seconds"], told["attempts"], solved, error)


def compared(seed: int, share: float, times: float, iterations: int, attempts: int, work: Path) -> dict[str, Any]:
    """All sides of a seed, and how many times what ours takes TRL takes; at least so many, where it does not get there."""
    whole = recipe(seed, attempts)
    bare = replace(whole, rft=replace(whole.rft, rounds=0))
    base = finished(work / str(seed) / "base", replace(bare, stages=()))
    seen = Run.open(base).results.reports()[0].pass_at_1
    if seen.mean >= share:
        sys.exit(f"seed {seed}: the base solves {100 * seen.mean:.0f} % already; ask for a --share above it.")
    start = point(0.0, 0.0, seen.mean, seen.error)
    alone = override(bare, {"stages.0.iterations": str(iterations)})
    alone = replace(alone, stages=alone.stages[:1])
    curves = {"recipe": [start, *of_recipe(whole, base, work / str(seed), share)]}
    curves["rl"] = [start, *_measured(finished(work / str(seed) / "rl", alone, base), start)]
    allowed = times * (crossed(curves["recipe"], share) or curves["recipe"][-1]["seconds"])
    for side in THEIRS:
        curves[side] = [start, *of_trl(alone, base, work / str(seed) / side, allowed, lent=side == "lent")]
    took = {side: crossed(curve, share) for side, curve in curves.items()}
    ratios: dict[str, dict[str, float]] = {}
    for side in THEIRS:
        theirs = took[side] or curves[side][-1]["seconds"]
        ratios[side] = {ours: theirs / own for ours in OURS if (own := took[ours]) is not None}
    return {"curves": curves, "seconds": took, "ratios": ratios}


def pooled(ratios: list[float | None]) -> Spread | None:
    """Over the seeds in which ours got there."""
    seen = [ratio for ratio in ratios if ratio is not None]
    return spread(seen) if seen else None


def main() -> None:
    asked = parser(__doc__)
    asked.add_argument("--seeds", default="31,32,33")
    asked.add_argument("--share", type=float, default=0.39)
    asked.add_argument("--times", type=float, default=8.0)
    asked.add_argument("--iterations", type=int, default=15)
    asked.add_argument("--attempts", type=int, default=2)
    asked.add_argument("--also", type=Path)
    asked.add_argument("--work", type=Path, default=Path("runs/until"))
    given = asked.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    found = {}
    if given.also:
        before = json.loads(given.also.read_text())["result"]
        if before["share"] != given.share:
            asked.error(f"{given.also} is about a share of {before['share']}")
        found = before["seeds"]
    found |= {str(seed): compared(seed, given.share, given.times, given.iterations, given.attempts, given.work) for seed in seeds}
    for seed, one in found.items():
        print(f"seed {seed}: {one['seconds']}, {one['ratios']}")
    ratios = {side: {ours: pooled([one["ratios"][side].get(ours) for one in found.values()]) for ours in OURS} for side in THEIRS}
    arrived = {side: sum(one["seconds"][side] is not None for one in found.values()) for side in THEIRS}
    tell({"share": given.share, "seeds": found, "ratios": ratios, "arrived": arrived})


if __name__ == "__main__":
    main()
