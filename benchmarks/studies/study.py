"""Arms of the laptop's recipe, from one policy a seed, over several seeds: how they are run, kept and compared.

A study is what its arms share and in what each of them differs; the scripts beside this one are studies. For each seed a run is taken up to
rejection fine-tuning, once. Every arm goes on with a copy of it, its pool of tasks included, as the recipe itself would have; its last
policy is measured on the same held-out tasks. What is there already is not run again, so an interrupted call goes on where it was, and
arms can be added. Prints the table, which pairs each arm with the control over tasks and seeds, and JSON last; `patchgrad view OUT/*.json
--out study.html` is the same as a page.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.library.command import parser, tell
from benchmarks.library.runs import PATIENT, finished, said, same

from patchgrad.config import override
from patchgrad.evaluation import over_seeds, pooled, shares
from patchgrad.recipes import Recipe, laptop
from patchgrad.store import Run, finite, plain, read_report
from patchgrad.store.files import put
from patchgrad.values import Report

Changes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Study:
    """What all arms have, and what each of them has beside that; the first is the control, with which others are compared unless said.

    In a `hard` one each round of fine-tuning tries the same so many tasks, and RL draws from those alone that the base solved in none of
    its attempts, which are the first round; its table has another line an arm, of the held-out tasks that the base never solved.
    """

    name: str
    shared: Changes
    arms: Mapping[str, Changes]
    against: Mapping[str, str] = field(default_factory=dict)
    stages: Mapping[str, int] = field(default_factory=dict)
    hard: int = 0
    seeds: tuple[int, ...] = (31, 32, 33)

    @property
    def control(self) -> str:
        return next(iter(self.arms))

    def recipe(self, name: str, seed: int) -> Recipe:
        """The recipe of an arm, as it would be run from the beginning."""
        changes = {"evaluation.after": "last", **self.arms[name], "name": name, "seed": str(seed)}
        recipe = override(laptop(), PATIENT | dict(self.shared) | changes)
        return replace(recipe, stages=recipe.stages[: self.stages.get(name, len(recipe.stages))])


def both(**changes: str) -> dict[str, str]:
    """The same change of both stages of RL; `__` stands for a dot: `both(loss__clip_high="0.2")`."""
    return {f"stages.{stage}.{name.replace('__', '.')}": value for stage in (0, 1) for name, value in changes.items()}


def begun(study: Study, seed: int, rounds: int, work: Path) -> Path:
    """A run of the recipe up to the base, or on to the end of fine-tuning; its policies are measured."""
    changes = {"name": "begun", "seed": str(seed), "rft.rounds": str(rounds)}
    recipe = override(laptop(), PATIENT | dict(study.shared) | changes)
    folder = work / f"{seed}-rounds-{rounds}"
    before = begun(study, seed, 0, work) if rounds else None
    few = Run.open(before).state()["pool"]["tasks"][: study.hard] if before and study.hard else None
    return finished(folder, replace(recipe, stages=()), before, only=few)


def kept(study: Study, name: str, seed: int, work: Path, out: Path) -> Path:
    """What stays of an arm's run: recipe, last report and figures, without its rollouts."""
    path, recipe = out / f"{name}-{seed}.json", study.recipe(name, seed)
    if not path.exists():
        rounds = min(study.recipe(study.control, seed).rft.rounds, recipe.rft.rounds)
        before = begun(study, seed, rounds, work)
        only = unsolved(Run.open(before).rollouts.rows("rft", 0, ("task", "solved"))) if study.hard else None
        folder = finished(work / f"{seed}-{name}", recipe, before, only)
        run = Run.open(folder)
        reports = run.results.reports() if name == study.control else run.results.reports()[-1:]
        told = {
            "arm": name,
            "seed": seed,
            "recipe": said(recipe),
            "reports": [plain(one) for one in reports],
            "metrics": run.results.metrics(),
        }
        put(path, json.dumps(finite(told)).encode() + b"\n")
        shutil.rmtree(folder)
    elif not same(json.loads(path.read_bytes())["recipe"], said(recipe)):
        raise SystemExit(f"{path} is of another recipe than {name} has now: move it away to run it again.")
    return path


def unsolved(rows: Collection[Mapping[str, Any]]) -> set[str]:
    """The tasks of which none of these attempts solved any."""
    return {row["task"] for row in rows} - {row["task"] for row in rows if row["solved"]}


def table(study: Study, seeds: list[int], names: list[str], out: Path) -> list[dict[str, object]]:
    """A row an arm: Pass@1 of each seed, their mean, and the difference to what it is compared with, paired over tasks and seeds."""
    found = {name: {seed: read_report(str(out / f"{name}-{seed}.json")) for seed in seeds} for name in names}
    rows = [_row(study, name, found, out) for name in names]
    if study.hard:
        hard = {seed: _unsolved_by_base(out / f"{study.control}-{seed}.json") for seed in seeds}
        few = {name: {seed: of(report, hard[seed]) for seed, report in reports.items()} for name, reports in found.items()}
        print(f"of the {sum(map(len, hard.values()))} held-out tasks that the base never solved:")
        rows += [{"held_out": "unsolved by the base", **_row(study, name, few, out)} for name in names]
    return rows


def _row(study: Study, name: str, found: Mapping[str, Mapping[int, Report]], out: Path) -> dict[str, object]:
    other = study.against.get(name, study.control)
    each, beside = ({seed: _solved(report) for seed, report in found[arm].items()} for arm in (name, other))
    versus, mean = pooled(found[other], found[name]), over_seeds(list(each.values()))
    error, difference = over_seeds([each[seed] - beside[seed] for seed in each]), versus.difference
    spent = _spent([out / f"{name}-{seed}.json" for seed in each])
    told = f"{name:22} {' '.join(f'{100 * share:5.1f}' for share in each.values())}  mean {100 * mean.mean:.1f} +- {100 * mean.error:.1f}"
    if name != study.control:
        told += f"  {100 * difference.mean:+.1f} ({100 * difference.low:.1f} to {100 * difference.high:.1f}), p = {versus.p_value:.2g}"
        told += f"; over seeds {100 * error.low:.1f} to {100 * error.high:.1f}"
    print(f"{told}  [{spent['tokens'] / 1000:.0f}k tokens, {spent['seconds']:.0f} s of sandboxes]")
    row = {"arm": name, "pass_at_1": each, "mean": plain(mean), "against": other, "over_seeds": plain(error), "spent": spent}
    return {**row, **plain(versus)}


def _solved(report: Report) -> float:
    found = shares(report)
    return sum(found.values()) / len(found)


def of(report: Report, tasks: Collection[str]) -> Report:
    """What a report says of each of these tasks; its other figures stay those of all."""
    outcomes = {task: told for task, told in report.outcomes.items() if task in tasks}
    return replace(report, outcomes=outcomes, solved={task: count for task, count in report.solved.items() if task in tasks})


def _unsolved_by_base(path: Path) -> set[str]:
    base = next(one for one in json.loads(path.read_bytes())["reports"] if one["name"] == "base")
    return {task for task, count in base["solved"].items() if not count}


def _spent(paths: list[Path]) -> dict[str, float]:
    """What RL took in the mean over seeds: tokens sampled and read, and seconds of tools and tests."""
    rows = [row for path in paths for row in json.loads(path.read_bytes())["metrics"] if row["phase"].startswith("stage")]
    tokens = sum(row.get("sampled", 0) + row.get("read", 0) for row in rows)
    seconds = sum(row["seconds"]["tools"] + row["seconds"]["tests"] for row in rows)
    return {"tokens": tokens / len(paths), "seconds": seconds / len(paths)}


def main(study: Study, about: str) -> None:
    """A study's command."""
    options = parser(about)
    options.add_argument("--seeds", default=",".join(map(str, study.seeds)))
    options.add_argument("--arms", default=",".join(study.arms))
    options.add_argument("--work", type=Path, default=Path("runs") / study.name)
    options.add_argument("--out", type=Path, default=Path("docs/studies") / study.name)
    given = options.parse_args()
    seeds, asked = [int(seed) for seed in given.seeds.split(",")], given.arms.split(",")
    if unknown := sorted(set(asked) - set(study.arms)):
        options.error(f"there is no arm {', '.join(unknown)}; there are: {', '.join(study.arms)}")
    needed = {study.control, *asked, *(study.against[name] for name in asked if name in study.against)}
    names = [name for name in study.arms if name in needed]
    given.work.mkdir(parents=True, exist_ok=True)
    given.out.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in names:
            kept(study, name, seed, given.work, given.out)
    tell(finite({"seeds": seeds, "rows": table(study, seeds, names, given.out)}))
