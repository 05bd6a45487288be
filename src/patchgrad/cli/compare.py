"""where do two runs part, and why there?

Holds two runs, or two kept evaluations, against each other: recipes, every token of every attempt, what sandboxes answered, verdicts and
weights. Tells the first turn that differs although all before it is the same. Exits with 1 where the runs part:

  patchgrad compare runs/one runs/other
  patchgrad compare runs/one runs/other --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchgrad.runs.inspection.comparing import Comparison, Parting

_SHOWN = 12  # lines of what each run has


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("left", metavar="RUN", help="a run's folder, or that of an evaluation that was kept")
    parser.add_argument("right", metavar="RUN", help="another one")
    parser.add_argument("--json", action="store_true", help="the comparison as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Compare, tell, and exit with 1 where something differs."""
    from patchgrad.runs.inspection.comparing import compare
    from patchgrad.store import Run

    found = compare(Run.open(arguments.left), Run.open(arguments.right))
    print(json.dumps({"same": found.same} | asdict(found)) if arguments.json else "\n".join(_page(found)))
    return 0 if found.same else 1


def _page(found: Comparison) -> Iterator[str]:
    yield from (f"{key} is {left or 'not set'} in the first and {right or 'not set'} in the second." for key, left, right in found.recipes)
    if found.programs:
        yield f"In the sandboxes of the second, {found.programs}."
    yield f"{'attempts':<22}{'in both':>8}{'the same':>10}"
    yield from (f"{table.name:<22}{table.attempts:>8,}{table.same:>10,}" for table in found.tables)
    yield from found.damaged
    if found.missing:
        yield f"Only one of them has {', '.join(found.missing)}."
    for kind, names in (
        ("the same", [name for name, same in found.weights if same]),
        ("others", [n for n, same in found.weights if not same]),
    ):
        if names:
            yield f"Weights that are {kind}: {', '.join(names)}."
    if found.parting is not None:
        yield from _told(*found.parting)
    elif found.tables and not found.damaged:
        yield "All attempts that both have are the same, in every token, answer and verdict."


def _told(table: str, parting: Parting) -> Iterator[str]:
    where = f"turn {parting.turn} of {parting.attempt}" if parting.turn else parting.attempt
    yield f"They part in {table}, at {where}: {parting.cause}."
    for name, text in (("first", parting.left), ("second", parting.right)):
        lines = text.splitlines()
        if lines:
            yield f"  {name}:"
            yield from (f"    {line}" for line in lines[:_SHOWN])
            if len(lines) > _SHOWN:
                yield f"    ({len(lines) - _SHOWN} more lines)"
