"""Draws docs/images/smol-curve.svg from the seeds of the recipe `smol-long` that smol.py ran: python benchmarks/studies/smol_curve.py

The files are docs/studies/smol/SEED.json. The same files give the same picture, byte for byte.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.picture import Picture
from benchmarks.studies.curve import DOCS, PHASES, Kept, band, plan, trained
from benchmarks.studies.smol import KINDS

from patchgrad.evaluation import over_seeds, shares
from patchgrad.store import read_reports
from patchgrad.values import Report

PICTURE, KEPT = DOCS / "images" / "smol-curve.svg", DOCS / "studies" / "smol"
COLOURS = {"packages": ("a", "held-out bugs of packages: mean, each seed"), "generated": ("c", "held-out generated tasks: mean, each seed")}
TRAINING = ("b", "training tasks of both kinds: mean, 95 %")
WIDE = 12.0  # attempts between the dots of two seeds


def drawn(runs: Sequence[Kept], reports: Sequence[Sequence[Report]]) -> str:
    """The picture: both kinds of held-out tasks after each phase, and training tasks in each iteration.

    Of `runs` the recipe and the figures of iterations are taken, of `reports` those of the phases of each run, in the same order.
    """
    steps = plan(runs[0]["recipe"])
    ends = [*accumulate(attempts for *_, attempts in steps)]
    last: Mapping[str, int] = {phase: end for (phase, *_), end in zip(steps, ends, strict=True)}
    borders = [0, *last.values()]
    plane = Picture(borders[-1], most=100)
    phases = [(PHASES[phase], *pair) for phase, pair in zip(last, pairwise(borders), strict=True)]
    training = [(end - attempts / 2, trained(runs, phase, at)) for (phase, at, attempts), end in zip(steps, ends, strict=True)]
    parts = plane.frame(f"Tasks solved in one attempt (Pass@1, %), recipe smol-long, {len(runs)} seeds", 20, phases)
    parts += [band(plane, TRAINING[0], training), plane.line(TRAINING[0], [(at, value.mean) for at, value in training])]
    for kind, (colour, _) in COLOURS.items():
        solved = [[_solved(phases_of[i], kind) for phases_of in reports] for i in range(len(borders))]
        parts.append(plane.line(colour, [(at, over_seeds(values).mean) for at, values in zip(borders, solved, strict=True)]))
        for at, values in zip(borders, solved, strict=True):
            aside = WIDE * (len(values) - 1) / 2
            first = min(max(at - aside, 0), borders[-1] - 2 * aside)
            parts += plane.dots(colour, [(first + WIDE * seed, value) for seed, value in enumerate(values)])
    parts += plane.legend(plane.x(0) + 14, plane.y(plane.most) + 16, [*COLOURS.values(), TRAINING])
    return plane.written("Tasks of both kinds solved in one attempt, by attempts at training tasks", parts)


def _solved(report: Report, kind: str) -> float:
    each = [share for task, share in shares(report).items() if KINDS[kind](task)]
    return 100 * sum(each) / len(each)


def picture() -> str:
    """The picture of the kept runs."""
    paths = sorted(KEPT.glob("*.json"))
    return drawn([json.loads(path.read_bytes()) for path in paths], [read_reports(path) for path in paths])


if __name__ == "__main__":
    PICTURE.write_text(picture())
