"""What a trained policy does, turn by turn: five of its attempts at held-out bugs, as they are.

    python benchmarks/studies/smol_attempts.py RUN [--after "stage 1 RL"] [--count 5] [--seed 0] > docs/studies/smol-attempts.md

Draws tasks of packages by the seed from the evaluation after a phase of the run (default: the last): a half whose first attempt solved it,
the odd one among them, and a half whose first attempt did not. Observations are cut after `LINES` lines. Prints a page in Markdown.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser
from benchmarks.studies.smol import KINDS

from patchgrad.config import loads
from patchgrad.recipes import Recipe
from patchgrad.store import Run
from patchgrad.values import Rollout

LINES, WIDE = 14, 120
"""Of an observation: how many lines are shown, and how many letters of each."""


def attempts(run: Run, phase: str, count: int, seed: int) -> list[Rollout]:
    """The first attempts at tasks of packages that the seed draws: those that solved theirs, then those that did not."""
    number = 1 + [report.name for report in run.results.reports()].index(phase)
    made = run.rollouts.read(f"evaluate-{number}")
    first = {one.trajectory.task: one for one in reversed(made) if KINDS["packages"](one.trajectory.task)}
    draw, found = random.Random(seed), list[Rollout]()
    for solved, wanted in ((True, (count + 1) // 2), (False, count // 2)):
        names = sorted(name for name, one in first.items() if one.solved == solved)
        found += [first[name] for name in draw.sample(names, min(wanted, len(names)))]
    return found


def page(run: Run, phase: str, made: list[Rollout]) -> Iterator[str]:
    """Lines of Markdown."""
    solved = sum(one.solved for one in made)
    share = next(report.pass_at_1.mean for report in run.results.reports() if report.name == phase)
    recipe = loads(Recipe, run.recipe)
    yield f"# {len(made)} attempts of `{recipe.name}`, seed {recipe.seed}, after {phase.removeprefix('+ ')}\n"
    yield (
        f"The tasks were drawn by a seed from the held-out bugs of packages, and the first attempt at each is shown: {solved} of those "
        f"that solved theirs, and {len(made) - solved} of those that did not. Of all attempts of this evaluation {100 * share:.0f} % "
        f"solved theirs. An observation ends after {LINES} lines here. `benchmarks/studies/smol_attempts.py` makes this page."
    )
    for one in made:
        yield f"\n## {one.task.id}: {'solved' if one.solved else 'not solved'}, {one.trajectory.stop}\n"
        yield from quoted(one.task.instruction)
        for number, turn in enumerate(one.trajectory.turns, 1):
            yield f"\n**Turn {number}**\n"
            yield from fenced(turn.action.text)
            if content := turn.observation.content:
                yield "\nIt sees:\n"
                yield from fenced(content)


def quoted(text: str) -> Iterator[str]:
    """The issue."""
    for line in text.strip().splitlines():
        yield f"> {line}".rstrip()


def fenced(text: str) -> Iterator[str]:
    """What was said or seen, as it stands."""
    lines = [line[:WIDE].rstrip() for line in text.strip().splitlines()]
    fence = "````"
    yield f"{fence}text"
    yield from lines[:LINES]
    if lines[LINES:]:
        yield f"... {len(lines) - LINES} more lines"
    yield fence


def main() -> None:
    options = parser(__doc__)
    options.add_argument("run", type=Path)
    options.add_argument("--after", default="")
    options.add_argument("--count", type=int, default=5)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    run = Run.open(given.run)
    names = [report.name for report in run.results.reports()]
    phase = f"+ {given.after}" if given.after and given.after != "base" else given.after or names[-1]
    print("\n".join(page(run, phase, attempts(run, phase, given.count, given.seed))))


if __name__ == "__main__":
    main()
