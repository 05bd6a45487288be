"""Draws docs/images/learning-curve.svg from the eight seeds of the recipe `laptop` that climb.py ran: python benchmarks/studies/curve.py

The files are docs/studies/climb/101.json to 108.json. The same files give the same picture, byte for byte.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.picture import Picture
from benchmarks.studies.climb import SEEDS

from patchgrad.evaluation import over_seeds
from patchgrad.values import Estimate

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = DOCS / "images" / "learning-curve.svg"
PHASES = {"rft": "RFT", "stage1": "RL, stage 1", "stage2": "RL, stage 2"}
WIDE = 20.0  # attempts between the dots of two seeds
Kept = Mapping[str, Any]


def plan(recipe: Kept) -> list[tuple[str, int, int]]:
    """Each iteration that the recipe has: its phase, its number there, and its attempts."""
    rft = recipe["rft"]
    steps = [("rft", at, rft["tasks"] * rft["attempts"]) for at in range(rft["rounds"])]
    for number, stage in enumerate(recipe["stages"], 1):
        attempts = stage["sampling"]["tasks"] * stage["sampling"]["attempts"]
        steps += [(f"stage{number}", at, attempts) for at in range(stage["iterations"])]
    return steps


def drawn(runs: Sequence[Kept]) -> str:
    """The picture: held-out tasks after each phase, those of fine-tuning alone, and training tasks in each iteration."""
    steps = plan(runs[0]["recipe"])
    ends = dict(zip([(phase, at) for phase, at, _ in steps], accumulate(attempts for *_, attempts in steps), strict=True))
    last = {phase: end for (phase, _), end in ends.items()}
    borders = [0, *last.values()]
    plane = Picture(borders[-1], most=80)
    phases = [(PHASES[phase], *pair) for phase, pair in zip(last, pairwise(borders), strict=True)]
    solved = [[100 * run["reports"][i]["pass_at_1"]["mean"] for run in runs] for i in range(len(borders) + 1)]
    held, alone = [over_seeds(values) for values in solved[:-1]], over_seeds(solved[-1])
    training = [(end - attempts / 2, trained(runs, phase, at)) for (phase, at, attempts), end in zip(steps, ends.values(), strict=True)]
    parts = plane.frame("Tasks solved in one attempt (Pass@1, %), recipe laptop, eight seeds", 20, phases)
    parts += [band(plane, "b", training), plane.line("b", [(at, value.mean) for at, value in training])]
    parts += [plane.line("e", [(borders[1], held[1].mean), (borders[-1], alone.mean)])]
    spread = list(zip(borders, held, strict=True))
    parts += [band(plane, "a", spread), plane.line("a", [(at, value.mean) for at, value in spread])]
    for at, values in zip([*borders, borders[-1]], solved, strict=True):
        colour, shift = ("e", 12 * WIDE) if values is solved[-1] else ("a", 3.5 * WIDE)
        middle = min(max(at, 3.5 * WIDE), borders[-1] - shift)
        parts += plane.dots(colour, [(middle + WIDE * (seed - 3.5), value) for seed, value in enumerate(values)])
    names = (
        ("a", "held-out tasks: mean, 95 %, each seed"),
        ("e", "the same, fine-tuning alone"),
        ("b", "training tasks: mean, 95 %"),
    )
    parts += plane.legend(plane.x(0) + 14, plane.y(plane.most) + 16, names)
    return plane.written("Tasks solved in one attempt, by attempts at training tasks, eight seeds", parts)


def trained(runs: Sequence[Kept], phase: str, at: int) -> Estimate:
    """Over the seeds that came so far: a stage may end early."""
    rows = [row for run in runs for row in run["metrics"] if (row["phase"], row["iteration"]) == (phase, at)]
    return over_seeds([100 * row["pass_at_1"] for row in rows])


def band(plane: Picture, colour: str, values: Sequence[tuple[float, Estimate]]) -> str:
    """The interval of a mean, drawn no lower than zero."""
    return plane.band(colour, [(at, max(value.low, 0.0)) for at, value in values], [(at, value.high) for at, value in values])


def picture() -> str:
    """The picture of the kept runs."""
    return drawn([json.loads((DOCS / "studies" / "climb" / f"{seed}.json").read_text()) for seed in SEEDS])


if __name__ == "__main__":
    PICTURE.write_text(picture())
