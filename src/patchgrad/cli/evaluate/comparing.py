"""Of `patchgrad evaluate`: two reports on the same tasks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from patchgrad.evaluation import comment, versus
from patchgrad.store import finite, plain, read_report


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the words of a comparison."""
    words = "two reports, paired by task: run folders, FOLDER:NAME for one of several, or what --json printed"
    group = parser.add_argument_group("a comparison")
    group.add_argument("--compare", metavar=("A", "B"), nargs=2, help=words)
    group.add_argument("--markdown", metavar="FILE", help="write it as a comment for who reviews a change, with the tasks that moved")


def run(arguments: argparse.Namespace) -> int:
    """Say how B differs from A, by how much at least and at most, and what else differs between them."""
    first, second = (read_report(source) for source in arguments.compare)
    found = versus(first, second)
    if arguments.markdown:
        Path(arguments.markdown).write_text(comment(first, second), encoding="utf-8")
    if arguments.json:
        print(json.dumps(finite(plain(found)) | {"sentence": found.sentence}, allow_nan=False))
        return 0
    print(found.sentence)
    if first.faults or second.faults:
        print(
            f"{first.faults} and {second.faults} attempts broke: had they gone all against {found.second}, or all for it, "
            f"the difference would be {100 * found.worst:.1f} or {100 * found.best:.1f} points."
        )
    for caveat in found.caveats:
        print(caveat)
    return 0
