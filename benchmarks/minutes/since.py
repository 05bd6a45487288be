"""The recipe `laptop` as it is, and as it was at another commit, on the same machine: minutes and Pass@1 on the way.

    python benchmarks/minutes/since.py 81f155f [--seeds 0] [--work runs/since]

Both run from nothing to the last evaluation, one after the other, with the machine to themselves and in this environment; the other commit
lies beside in a worktree. The `times` are the minutes of the first of the other's policies that solves as much as its last one over those
of the first of ours that does, both with what measuring took: of each seed, and of the `mean` over seeds of minutes and of what is solved.
What is whole in the work folder is not run again. Prints progress, and JSON last.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.peers import ROOT
from benchmarks.library.records import commit

MAIN = "import sys; from patchgrad.cli import main; sys.exit(main())"
Point = dict[str, Any]


def worktree(commit: str, work: Path) -> Path:
    """The other commit's files."""
    tree = work / commit
    if not tree.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", tree.resolve(), commit], check=True, stdout=sys.stderr)
    return tree.resolve()


def ran(tree: Path, seed: int, folder: Path) -> dict[str, Any]:
    """Minutes of the whole command, and its table."""
    if not (folder / "took").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-c", MAIN, "train", "laptop", "--run", str(folder.resolve()), "--seed", str(seed)]
        began = time.monotonic()
        subprocess.run(words, env=os.environ | {"PYTHONPATH": str(tree / "src")}, cwd=tree, check=True, stdout=sys.stderr)
        (folder / "took").write_text(str((time.monotonic() - began) / 60))
    told = json.loads((folder / "report.json").read_text())["reports"]
    curve = [point(one["name"], one["seconds"] / 60, one["pass_at_1"]) for one in told]
    return {"minutes": float((folder / "took").read_text()), "curve": curve}


def point(name: str, minutes: float, seen: Any) -> Point:
    """A policy on the way."""
    return {"name": name, "minutes": minutes, "pass_at_1": seen["mean"], "error": seen["error"]}


def times(ours: list[Point], theirs: list[Point]) -> float | None:
    """How many times as long the other took to what it ended with."""
    wanted = theirs[-1]["pass_at_1"]
    took = [next((one["minutes"] for one in side if one["pass_at_1"] >= wanted), None) for side in (theirs, ours)]
    return took[0] / took[1] if took[0] and took[1] else None


def mean(curves: list[list[Point]]) -> list[Point]:
    """The seeds' policies of one name as one, with the error over all their tasks."""
    count = len(curves)
    return [
        point(
            same[0]["name"],
            sum(one["minutes"] for one in same) / count,
            {"mean": sum(one["pass_at_1"] for one in same) / count, "error": sum(one["error"] ** 2 for one in same) ** 0.5 / count},
        )
        for same in zip(*curves, strict=True)
    ]


def main() -> None:
    """Runs both, seed by seed."""
    asked = parser(__doc__)
    asked.add_argument("commit")
    asked.add_argument("--seeds", default="0")
    asked.add_argument("--work", type=Path, default=ROOT / "runs" / "since")
    given = asked.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for seed in given.seeds.split(","):
        sides = {"then": (worktree(given.commit, given.work), given.commit), "now": (ROOT, commit())}
        one = {side: ran(tree, int(seed), given.work / f"{name}-{seed}") for side, (tree, name) in sides.items()}
        found[seed] = {**one, "times": times(one["now"]["curve"], one["then"]["curve"])}
        print(f"seed {seed}: {found[seed]['times']}", flush=True)
    both = {side: mean([one[side]["curve"] for one in found.values()]) for side in ("then", "now")}
    tell({"commit": given.commit, "seeds": found, "mean": {**both, "times": times(both["now"], both["then"])}})


if __name__ == "__main__":
    main()
