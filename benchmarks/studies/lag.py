"""How much faster is a stage whose sampling runs ahead, where tools take seconds?

    python benchmarks/studies/lag.py [--rounds 3] [--work runs/lag]

The recipe `tiny` with 16 attempts an iteration, as many as there are places, and an agent each of whose turns waits in its sandbox: for 0.3
seconds over a number that is drawn evenly from 0 to 1, at most 8. So two cores have little to do, and the slowest attempt of a batch takes
twice as long as the mean. The rounds of all lags alternate. Prints seconds of the stage's iterations, and the ratio to the same round
without a lag; prints JSON last.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell

import patchgrad as pg
from patchgrad.values import digest

LAGS = (0, 1, 2)
ITERATIONS = 8


class Waiting(pg.ReactAgent):
    """Whatever the policy says, it waits."""

    def parse(self, text: str) -> pg.Call:
        return pg.Call("wait", text)


async def wait(arguments: str, sandbox: pg.Sandbox, state: pg.ToolState) -> str:
    """wait: takes some seconds"""
    part = (int(digest(arguments)[:8], 16) + 1) / 16**8
    await sandbox.exec(["sleep", f"{min(8.0, 0.3 / part):.2f}"], timeout=30.0)
    return "waited"


def worth(task: pg.Task, trajectory: pg.Trajectory, verdict: pg.Verdict) -> float:
    """Some attempts are better than others, so that each iteration makes its steps."""
    return int(digest(trajectory.id)[:8], 16) / 16**8


def stage(work: Path, model: str, lag: int, number: int) -> float:
    """Seconds of the iterations of a stage."""
    changes = {
        "policy.model": model,
        "seed": str(number),
        "rft.rounds": "0",
        "sandbox.concurrency": "16",
        "evaluation.after": "last",
        "evaluation.attempts": "1",
        "evaluation.k": "1",
        "evaluation.limits.turns": "1",
        "guards.patience": "100",
        "stages.0.iterations": str(ITERATIONS),
        "stages.0.sampling.tasks": "4",
        "stages.0.sampling.attempts": "4",
        "stages.0.sampling.lag": str(lag),
        "stages.0.limits.turns": "6",
        "stages.0.health.submitted": "0",
        "stages.0.health.looping": "1",
        "stages.1.iterations": "1",
        "stages.1.limits.turns": "5",
    }
    run = pg.train(pg.recipe("tiny", changes=changes), agent=Waiting, tools=[wait], reward=worth, run=work / f"{number}-{lag}")
    rows = [row for row in run.results.metrics() if row["phase"] == "stage1"]
    if len(rows) != ITERATIONS:
        raise SystemExit(f"the stage ended after {len(rows)} iterations")
    return float(sum(row["seconds"]["wall"] + row["seconds"]["besides"] for row in rows))


def told(seconds: Sequence[Sequence[float]]) -> dict[str, object]:
    """The table, and what is printed as JSON."""
    found: dict[str, object] = {}
    for place, lag in enumerate(LAGS):
        ratios = [row[0] / row[place] for row in seconds]
        median = statistics.median(row[place] for row in seconds)
        print(f"lag {lag}: {median:.0f} s, {statistics.median(ratios):.2f} x as fast ({min(ratios):.2f} to {max(ratios):.2f})")
        found[f"lag {lag}"] = {"seconds": [row[place] for row in seconds], "ratios": ratios}
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--work", type=Path, default=Path("runs/lag"))
    asked = options.parse_args()
    base = pg.train("tiny", run=asked.work / "base")
    model = str(base.checkpoints.find())
    tell(told([[stage(asked.work, model, lag, number) for lag in LAGS] for number in range(asked.rounds)]))


if __name__ == "__main__":
    main()
