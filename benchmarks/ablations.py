"""What each part of the recipe is worth: the laptop's recipe without it, from one policy, with as many attempts, over several seeds.

    python benchmarks/ablations.py [--seeds 21,22,23] [--arms one-stage,overlong-masked] [--work runs/ablations] [--out DIR]

For each seed a run is taken up to rejection fine-tuning, once. Every arm goes on with a copy of it, its pool of tasks included, as the
recipe itself would have; its last policy is measured on the same held-out tasks. What is there already is not run again, so an interrupted
call goes on where it was, and arms can be added. Prints the table, which pairs each arm with the control over tasks and seeds, and JSON
last; `patchgrad view docs/studies/ablations/*.json` is the same as a page.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from patchgrad.config import dumps, leaves, override
from patchgrad.evaluation import over_seeds, pooled
from patchgrad.recipes import Recipe, laptop, train
from patchgrad.store import Run, finite, plain, read_report
from patchgrad.store.files import put
from patchgrad.viewer.progress import choose

Changes = Mapping[str, str]
STUDY = {"tasks.held_out": "100", "evaluation.attempts": "4", "guards.patience": "1000"}
"""Tendencies are what is studied, so no guard ends an arm for one."""


def _both(**changes: str) -> dict[str, str]:
    return {f"stages.{stage}.{name}": value for stage in (0, 1) for name, value in changes.items()}


ARMS: Mapping[str, Changes] = {
    "control": {"evaluation.after": "phases"},
    "no-rft": {"rft.rounds": "0", "stages.0.iterations": "14", "stages.1.iterations": "5"},
    "rft-only": {"rft.rounds": "3"},
    "symmetric-clip": _both(clip_high="0.2"),
    "no-contrast-filter": _both(filter_on="reward"),
    "sequence-mean": _both(aggregate="seq-mean-token-mean"),
    "no-length-penalty": _both(length_weight="0"),
    "overlong-masked": _both(overlong="mask"),
    "top-p-0.9": _both(top_p="0.9"),
    "one-stage": {"stages.0.iterations": "6"},
    "few-tasks": _both(pool="32"),
    "few-tasks-no-refresh": _both(pool="32") | {"stages.1.refresh_before": "false"},
    "paper-baseline": _both(baseline="group", lowered="0"),
    "no-step-credit": _both(step_weight="0"),
    "certain-blamed": _both(certain="1"),
    "waste-rewarded": _both(waste="keep"),
    "paper-credit": _both(baseline="group", lowered="0", step_weight="0", certain="1", waste="keep"),
    "paper-length-penalty": _both(length_weight="1") | {"stages.0.length_threshold": "3", "stages.1.length_threshold": "3"},
}
"""The first is the recipe: 2,960 attempts, of which RL has 960; `no-rft` has 3,040 of RL alone, `rft-only` a third round and so 3,000.

Of 2,000 tasks none is drawn twice in so few iterations, so a refresh changes nothing but the order. Its arms draw from 32.
"""
AGAINST = {"few-tasks-no-refresh": "few-tasks"}
STAGES = {"rft-only": 0, "one-stage": 1}


def recipe_of(name: str, seed: int) -> Recipe:
    """The recipe of an arm, as it would be run from the beginning."""
    changes = {"evaluation.after": "last", **ARMS[name], "name": name, "seed": str(seed)}
    recipe = override(laptop(), STUDY | changes)
    return replace(recipe, stages=recipe.stages[: STAGES.get(name, 2)])


def begun(seed: int, rounds: int, work: Path) -> Path:
    """A run of the recipe up to the base, or on to the end of fine-tuning; its policies are measured."""
    recipe = override(laptop(), STUDY | {"name": "begun", "seed": str(seed), "rft.rounds": str(rounds)})
    folder = work / f"{seed}-rounds-{rounds}"
    return finished(folder, replace(recipe, stages=()), begun(seed, 0, work) if rounds else None)


def kept(name: str, seed: int, work: Path, out: Path) -> Path:
    """What stays of an arm's run: recipe, last report and figures, without its rollouts."""
    path, recipe = out / f"{name}-{seed}.json", recipe_of(name, seed)
    if not path.exists():
        rounds = min(2, recipe.rft.rounds)
        folder = finished(work / f"{seed}-{name}", recipe, begun(seed, rounds, work), back=int(name == "rft-only"))
        run = Run.open(folder)
        reports = run.reports() if name == "control" else run.reports()[-1:]
        told = {"arm": name, "seed": seed, "recipe": _said(recipe), "reports": [plain(one) for one in reports], "metrics": run.metrics()}
        put(path, json.dumps(finite(told)).encode() + b"\n")
        shutil.rmtree(folder)
    elif json.loads(path.read_bytes())["recipe"] != json.loads(json.dumps(_said(recipe))):
        raise SystemExit(f"{path} is of another recipe than {name} has now: move it away to run it again.")
    return path


def _said(recipe: Recipe) -> dict[str, object]:
    return {key: value for key, value in leaves(recipe).items() if key not in ("name", "seed")}


def finished(folder: Path, recipe: Recipe, before: Path | None = None, back: int = 0) -> Path:
    """A run's folder when its course is taken, from where `before` ended or so many steps `back`; one that stopped half-way goes on."""
    if not folder.exists() and before:
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(before, partial)
        (partial / "recipe.toml").write_text(dumps(recipe))
        state = json.loads((partial / "state.json").read_bytes())
        (partial / "state.json").write_text(json.dumps(state | {"position": state["position"] - back}))
        partial.rename(folder)
    made = Run.resume(folder) if folder.exists() else Run.create(folder, dumps(recipe))
    with made as run, choose(quiet=False) as progress:
        if run.recipe != dumps(recipe):
            raise SystemExit(f"{folder} is a run of another recipe: move it away.")
        train(recipe, run, progress)
    return folder


def table(seeds: list[int], names: list[str], out: Path) -> list[dict[str, object]]:
    """A row an arm: Pass@1 of each seed, their mean, and the difference to what it is compared with, paired over tasks and seeds."""
    found = {name: {seed: read_report(str(out / f"{name}-{seed}.json")) for seed in seeds} for name in names}
    rows = []
    for name in names:
        other = AGAINST.get(name, "control")
        each = {seed: found[name][seed].pass_at_1.mean for seed in seeds}
        apart = [each[seed] - found[other][seed].pass_at_1.mean for seed in seeds]
        versus, mean, error = pooled(found[other], found[name]), over_seeds(list(each.values())), over_seeds(apart)
        difference = versus.difference
        rows.append({"arm": name, "pass_at_1": each, "mean": plain(mean), "against": other, "over_seeds": plain(error), **plain(versus)})
        told = (
            f"{name:22} {' '.join(f'{100 * share:5.1f}' for share in each.values())}  mean {100 * mean.mean:.1f} +- {100 * mean.error:.1f}"
        )
        if name != "control":
            told += f"  {100 * difference.mean:+.1f} ({100 * difference.low:.1f} to {100 * difference.high:.1f}), p = {versus.p_value:.2g}"
            told += f"; over seeds +- {100 * error.error:.1f}"
        print(told)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="21,22,23")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--work", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--out", type=Path, default=Path("docs/studies/ablations"))
    given = parser.parse_args()
    seeds, asked = [int(seed) for seed in given.seeds.split(",")], given.arms.split(",")
    if unknown := sorted(set(asked) - set(ARMS)):
        parser.error(f"there is no arm {', '.join(unknown)}; there are: {', '.join(ARMS)}")
    needed = {"control", *asked, *(AGAINST[name] for name in asked if name in AGAINST)}
    names = [name for name in ARMS if name in needed]
    given.work.mkdir(parents=True, exist_ok=True)
    given.out.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in names:
            kept(name, seed, given.work, given.out)
    print(json.dumps(finite({"seeds": seeds, "rows": table(seeds, names, given.out)})))


if __name__ == "__main__":
    main()
