"""What each part of the recipe is worth: the laptop's recipe without it, from one policy, at equal compute, over several seeds.

    python benchmarks/ablations.py [--seeds 21,22,23] [--arms control,no-refresh] [--work runs/ablations] [--out docs/studies/ablations]

For each seed the recipe is run up to rejection fine-tuning, once; every arm then takes the same iterations of RL from there, and the last
policy is measured on the same held-out tasks. What is there already is not run again, so an interrupted call goes on where it was, and arms
can be added. Prints the table, which pairs each arm with the control over tasks and seeds, and JSON last.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from patchgrad.config import dumps, override
from patchgrad.evaluation import over_seeds, pooled
from patchgrad.recipes import Recipe, laptop, train
from patchgrad.store import Run, finite, plain, read_report
from patchgrad.values import Estimate
from patchgrad.viewer.progress import choose

Changes = Mapping[str, str]
MEASURED = {"tasks.held_out": "100", "evaluation.attempts": "4"}
FROM_RFT = {"rft.rounds": "0", "evaluation.after": "last"}


def _both(**changes: str) -> dict[str, str]:
    return {f"stages.{stage}.{name}": value for stage in (0, 1) for name, value in changes.items()}


ARMS: Mapping[str, Changes] = {
    "control": {},
    "no RFT": {"stages.0.iterations": "14", "stages.1.iterations": "5"},
    "RFT only": {"rft.rounds": "1", "rft.tasks": "96"},
    "symmetric clip": _both(clip_high="0.2"),
    "no contrast filter": _both(filter_on="reward"),
    "sequence mean": _both(aggregate="seq-mean-token-mean"),
    "no length penalty": _both(length_weight="0"),
    "overlong masked": _both(overlong="mask"),
    "top-p 0.9": _both(top_p="0.9") | {"guards.surprise.stop": "-1e9", "guards.gap.stop": "1e9"},
    "one stage": {"stages.0.iterations": "6"},
    "no refresh": {"stages.1.refresh_before": "false"},
    "paper's baseline": _both(baseline="group", lowered="0"),
    "no step credit": _both(step_weight="0"),
    "certain tokens blamed": _both(certain="1"),
    "waste rewarded": _both(waste="keep"),
    "paper's credit": _both(baseline="group", lowered="0", step_weight="0", certain="1", waste="keep"),
    "paper's length penalty": _both(length_weight="1") | {"stages.0.length_threshold": "3", "stages.1.length_threshold": "3"},
}
"""The first is the recipe. Attempts are equal in all: `no RFT` spends those of two rounds of 100 x 10 on RL, `RFT only` those of RL on a
third round."""


def base(seed: int, work: Path) -> Path:
    """A finished run up to rejection fine-tuning."""
    recipe = override(laptop(), MEASURED | {"seed": str(seed), "name": f"base-{seed}"})
    return finished(replace(recipe, stages=()), work / f"base-{seed}")


def arm(name: str, seed: int, work: Path) -> Path:
    """A finished run of an arm, from the policy that it starts with."""
    begun = base(seed, work)
    start = "base" if name == "no RFT" else Run.open(begun).find().name
    recipe = override(laptop(), {**MEASURED, **FROM_RFT, **ARMS[name], "seed": str(seed), "name": slug(name)})
    recipe = override(recipe, {"policy.model": str(begun / "checkpoints" / start)})
    stages = {"RFT only": (), "one stage": recipe.stages[:1]}.get(name, recipe.stages)
    return finished(replace(recipe, stages=stages), work / f"{slug(name)}-{seed}")


def slug(name: str) -> str:
    """A name for a folder."""
    return name.replace("'", "").replace(" ", "-").replace(".", "")


def finished(recipe: Recipe, folder: Path) -> Path:
    """The run's folder, when it has gone its whole course; one that stopped half-way goes on."""
    if (folder / "report.json").exists() and (folder / "done").exists():
        return folder
    made = Run.resume(folder) if folder.exists() else Run.create(folder, dumps(recipe))
    with made as run, choose(quiet=False) as progress:
        train(recipe, run, progress)
    (folder / "done").touch()
    return folder


def kept(name: str, seed: int, work: Path, out: Path) -> Path:
    """What stays of an arm's run: the reports and figures, without its rollouts."""
    path = out / f"{slug(name)}-{seed}.json"
    if not path.exists():
        folder = arm(name, seed, work)
        run = Run.open(folder)
        told = {"arm": name, "seed": seed, "reports": [finite(plain(one)) for one in run.reports()], "metrics": run.metrics()}
        path.write_text(json.dumps(told) + "\n")
        shutil.rmtree(folder)
    return path


def table(seeds: list[int], names: list[str], out: Path) -> list[dict[str, object]]:
    """A row an arm: Pass@1 of each seed, their mean, and the difference to the control, paired over tasks and seeds."""
    found = {name: {seed: read_report(str(out / f"{slug(name)}-{seed}.json")) for seed in seeds} for name in ("control", *names)}
    rows = []
    for name in names:
        means = [found[name][seed].pass_at_1.mean for seed in seeds]
        versus = pooled(found["control"], found[name])
        mean = over_seeds(means)
        rows.append({"arm": name, "pass_at_1": means, "mean": plain(mean), "difference": plain(versus.difference), "p": versus.p_value})
        told = f"{name:24} {_shown(means)}  mean {100 * mean.mean:.1f} +- {100 * mean.error:.1f}"
        print(told + (f"  {_points(versus.difference)}, p = {versus.p_value:.2g}" if name != "control" else ""))
    return rows


def _shown(means: list[float]) -> str:
    return " ".join(f"{100 * mean:5.1f}" for mean in means)


def _points(difference: Estimate) -> str:
    return f"{100 * difference.mean:+.1f} ({100 * difference.low:.1f} to {100 * difference.high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="21,22,23")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--work", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--out", type=Path, default=Path("docs/studies/ablations"))
    given = parser.parse_args()
    seeds, names = [int(seed) for seed in given.seeds.split(",")], given.arms.split(",")
    given.out.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in names:
            kept(name, seed, given.work, given.out)
    print(json.dumps({"seeds": seeds, "rows": table(seeds, names, given.out)}))


if __name__ == "__main__":
    main()
