"""Draws docs/images/repeated-calls.svg, how often arms of the study of ablations repeat themselves: python benchmarks/studies/repeats.py

The files are docs/studies/climb/arms/ARM-SEED.json, as ablations.py keeps them. The same files give the same picture, byte for byte.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.picture import Picture
from benchmarks.studies.curve import DOCS, PHASES, Kept, plan

PICTURE, KEPT = DOCS / "images" / "repeated-calls.svg", DOCS / "studies" / "climb" / "arms"
ARMS = {
    "control": ("a", "a loop costs 1.5 (the recipe)"),
    "loops-keep": ("b", "rewarded as the attempt is"),
    "loops-mask": ("c", "masked"),
    "loops-withhold": ("d", "no reward, all blame"),
    "no-charge": ("e", "as the recipe, without its charge"),
}
"""What becomes of a turn that repeats a call in the same state, with the colour of its line."""


def drawn(runs: Mapping[str, Sequence[Kept]]) -> str:
    """The picture: the share of turns that loop in each iteration of RL, the mean of an arm's seeds."""
    steps = [step for step in plan(runs["control"][0]["recipe"]) if step[0] != "rft"]
    ends = [*accumulate(attempts for *_, attempts in steps)]
    last = {phase: end for (phase, *_), end in zip(steps, ends, strict=True)}
    plane = Picture(ends[-1], most=16)
    phases = [(PHASES[phase], *pair) for phase, pair in zip(last, pairwise([0, *last.values()]), strict=True)]
    parts = plane.frame(f"Turns that repeat a call in the same state (%), mean of {len(runs['control'])} seeds", 2, phases)
    for name, (colour, _) in ARMS.items():
        points = [(end - attempts / 2, _looping(runs[name], phase, at)) for (phase, at, attempts), end in zip(steps, ends, strict=True)]
        parts += [plane.line(colour, points), *plane.dots(colour, points)]
    parts += plane.legend(plane.x(0) + 14, plane.y(plane.most) + 16, list(ARMS.values()))
    return plane.written("Turns that repeat a call in the same state, by attempts at training tasks", parts)


def _looping(runs: Sequence[Kept], phase: str, at: int) -> float:
    """In percent of the turns of an iteration, over the seeds that came so far: a stage may end early."""
    rows = [row for run in runs for row in run["metrics"] if (row["phase"], row["iteration"]) == (phase, at)]
    looping: list[float] = [100 * row["failures"].get("looping", 0) / (row["turns"] * row["episodes"]) for row in rows]
    return statistics.mean(looping)


def picture() -> str:
    """The picture of the kept runs."""
    return drawn({name: [json.loads(path.read_text()) for path in sorted(KEPT.glob(f"{name}-*.json"))] for name in ARMS})


if __name__ == "__main__":
    PICTURE.write_text(picture())
