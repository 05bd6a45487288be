"""plant bugs in real code that has tests, and keep those that the tests notice

SOURCE is a package of the package index, a folder, or the address of a git repository; several may be named. Its tests are run as they are,
with what it states that they need, so take only what you would also install.

  patchgrad tasks forge toolz==1.0.0 --count 20 --out sets/mine
  patchgrad tasks forge ./my-package https://example.org/owner/name.git --out sets/mine
  patchgrad tasks forge humanize --families cmp_boundary,remove_guard --count 50 --out sets/hard
  patchgrad tasks forge --catalogue --count 80 --out sets/large

An interrupted call goes on where it was when it is made again. A set that is there already gets the new tasks added.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path

from patchgrad.cli.tasks.telling import Told, listed
from patchgrad.errors import ConfigError
from patchgrad.packages.sites import cache
from patchgrad.runs.trackers.terminal import choose
from patchgrad.tasks.forge import FRUITLESS, Order
from patchgrad.tasks.making import Made, forge_set
from patchgrad.tasks.mutations import FAMILIES
from patchgrad.tasks.projects.catalogue import CATALOGUE


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help="NAME or NAME==VERSION of a package, a folder, or a git address")
    parser.add_argument("--catalogue", action="store_true", help=f"{len(CATALOGUE)} packages that were tried, pinned by their hashes")
    parser.add_argument("--out", metavar="SET", required=True, help="the set's folder; new tasks are added to one that is there")
    parser.add_argument("--count", metavar="N", type=int, default=20, help="tasks wanted of each source (default: 20)")
    parser.add_argument("--families", metavar="NAMES", default=",".join(FAMILIES), help=f"families of bugs: {', '.join(FAMILIES)}")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="which places are tried first (default: 0)")
    parser.add_argument("--confirm", metavar="N", type=int, default=5, help="runs of all tests a task, each in another order (default: 5)")
    parser.add_argument("--visible-tests", action="store_true", help="leave the tests that decide in the agent's tree")
    parser.add_argument("--quiet-tests", action="store_true", help="pytest prints little, for agents with little room")
    parser.add_argument("--json", action="store_true", help="one JSON object, no progress")


def run(arguments: argparse.Namespace) -> int:
    """Make the tasks; 1 when some source gave none."""
    order = _order(arguments)
    pins = {pinned.requirement: pinned.sha256 for pinned in CATALOGUE if arguments.catalogue}
    sources = [*arguments.sources, *pins]
    if not sources:
        raise ConfigError("Nothing is named to make tasks from: name a SOURCE, or say --catalogue.")
    with choose(arguments.json) as tracker:
        told = Told(tracker, "forge", order.count)
        made = forge_set(sources, Path(arguments.out), order, cache(), _command(arguments), told, pins)
    if arguments.json:
        print(json.dumps({"set": arguments.out, "sources": [_plain(one) for one in made]}))
    else:
        for one in made:
            print(_sentence(one))
        print(f"\n{sum(len(one.members) for one in made)} tasks are in {arguments.out}: patchgrad tasks stats {arguments.out}")
    return int(any(one.error or not one.members for one in made))


def _order(arguments: argparse.Namespace) -> Order:
    families = tuple(name.strip() for name in arguments.families.split(",") if name.strip())
    unknown = [name for name in families if name not in FAMILIES]
    if unknown or not families:
        raise ConfigError(f"There is no family of bugs {', '.join(unknown) or 'named'}; there are: {', '.join(FAMILIES)}.")
    if arguments.count < 1 or arguments.confirm < 1:
        raise ConfigError("--count and --confirm must be at least 1.")
    return Order(
        arguments.count,
        arguments.seed,
        families,
        confirmations=arguments.confirm,
        visible_tests=arguments.visible_tests,
        quiet=arguments.quiet_tests,
        workers=os.cpu_count() or 1,
    )


def _command(arguments: argparse.Namespace) -> str:
    """What made the tasks, as it can be typed again; where the set is written makes no difference."""
    words = [
        *("patchgrad", "tasks", "forge"),
        *arguments.sources,
        *["--catalogue"] * arguments.catalogue,
        "--count",
        str(arguments.count),
        "--seed",
        str(arguments.seed),
    ]
    words += ["--confirm", str(arguments.confirm)]
    if arguments.families != ",".join(FAMILIES):
        words += ["--families", arguments.families]
    words += ["--visible-tests"] * arguments.visible_tests + ["--quiet-tests"] * arguments.quiet_tests
    return shlex.join(words)


def _sentence(made: Made) -> str:
    if made.error:
        return f"{made.source}: no tasks. {made.error.removeprefix(f'{made.source}: ')}"
    reasons = listed(made.rejected)
    left = f", left out {listed(made.left_out)}" if made.left_out else ""
    tried = len(made.members) + sum(made.rejected.values())
    fell = f" The others: {reasons}." if reasons else ""
    fell += " It was given up there." if tried >= FRUITLESS and not made.members else ""
    tests = f"{made.reliable} reliable tests{left}"
    return f"{made.project}: {len(made.members)} tasks of {tried} candidates, {made.cpu:.0f} s of CPU; {tests}.{fell}{made.files}"


def _plain(made: Made) -> dict[str, object]:
    return {
        "source": made.source,
        "project": made.project,
        "tasks": [member.task.id for member in made.members],
        "rejected": dict(made.rejected),
        "reliable_tests": made.reliable,
        "left_out": dict(made.left_out),
        "passed_over": dict(made.passed_over),
        "cpu_seconds": round(made.cpu, 2),
        "error": made.error,
    }
