"""make a frozen set again, bit for bit, from the package index and from repositories

Archives are made from the package index and from repositories, and their hashes must be those that were written down:

  patchgrad tasks rebuild recipes/mine --out sets/mine
  patchgrad tasks rebuild recipes/mine --out sets/mine --clones ~/clones      repositories that cannot be fetched, by their names
  patchgrad tasks rebuild recipes/mine --out sets/mine --partly               without the tasks of what cannot be had
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.packages.sites import cache
from patchgrad.runs.trackers.terminal import choose
from patchgrad.tasks.rebuilding import rebuild
from patchgrad.tasks.sets import read_origins
from patchgrad.values import Advanced, Note, PhaseBegan


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("frozen", metavar="FROZEN", help="a folder that `patchgrad tasks freeze` wrote")
    parser.add_argument("--out", metavar="SET", required=True, help="the set's folder, which must not be there")
    parser.add_argument("--clones", metavar="DIR", help="a folder of git repositories, each under its project's name")
    parser.add_argument("--partly", action="store_true", help="leave out the tasks of a source that cannot be had, and say so")
    parser.add_argument("--json", action="store_true", help="one JSON object, no progress")


def run(arguments: argparse.Namespace) -> int:
    """Rebuild it."""
    frozen, clones = Path(arguments.frozen), Path(arguments.clones) if arguments.clones else None
    if clones is not None and not clones.is_dir():
        raise TaskError(f"{clones} is no folder: name the one that holds the clones.")
    known = {path.name.removesuffix(".git"): path for path in clones.iterdir() if path.is_dir()} if clones else {}
    with choose(arguments.json) as tracker:
        tracker.event(PhaseBegan("rebuild", len(read_origins(frozen))))

        def tell(name: str) -> None:
            tracker.event(Advanced())
            tracker.event(Note(name))

        made = rebuild(frozen, Path(arguments.out), cache(), known, tell, arguments.partly)
    if arguments.json:
        print(json.dumps({"set": arguments.out, "tasks": made.tasks, "left_out": dict(made.left_out)}))
        return 0
    for name, why in made.left_out.items():
        print(f"left out: {name}, {why}")
    print(f"{made.tasks} tasks are in {arguments.out}, as they were.")
    return 0
