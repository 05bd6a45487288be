"""take commits that repaired something and brought their tests from the history of a git repository

GIT_REPOSITORY is a clone with its history, a bare repository, or an address, which is cloned whole. Its tests are run as they are, with
what it states that they need, so take only what you would also install.

  patchgrad tasks mine ./clone --count 20 --out sets/mine
  patchgrad tasks mine https://example.org/owner/name.git --since 2024-01-01 --out sets/recent

An interrupted call goes on where it was when it is made again. A set that is there already gets the new tasks added.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections import Counter
from datetime import date
from pathlib import Path

from patchgrad.cli.tasks.telling import Told, listed
from patchgrad.errors import ConfigError
from patchgrad.packages.sites import cache
from patchgrad.runs.trackers.terminal import choose
from patchgrad.tasks.history import Mined, Wish
from patchgrad.tasks.making import mine_set


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("source", metavar="GIT_REPOSITORY", help="a work tree, a bare repository, or a git address")
    parser.add_argument("--out", metavar="SET", required=True, help="the set's folder; new tasks are added to one that is there")
    parser.add_argument("--count", metavar="N", type=int, default=20, help="tasks wanted, of the newest commits (default: 20)")
    parser.add_argument("--since", metavar="DAY", default="", help="no commits of before this day, as in 2024-05-31")
    parser.add_argument("--until", metavar="DAY", default="", help="no commits of after this day")
    parser.add_argument("--runs", metavar="N", type=int, default=3, help="runs before and after each commit, in other orders (default: 3)")
    parser.add_argument("--evaluation", action="store_true", help="mark the tasks as made to measure models, not to train them")
    parser.add_argument("--json", action="store_true", help="one JSON object, no progress")


def run(arguments: argparse.Namespace) -> int:
    """Make the tasks; 1 when there are fewer than wanted."""
    wish = _wish(arguments)
    with choose(arguments.json) as tracker:
        told = Told(tracker, "mine", wish.count)
        mined, cpu = mine_set(
            arguments.source, Path(arguments.out), wish, cache(), _command(arguments), lambda *fate: told(arguments.source, *fate)
        )
    if arguments.json:
        print(json.dumps({"set": arguments.out, **_plain(mined, cpu)}))
    else:
        print(_sentence(mined, cpu))
        print(f"\n{len(mined.members)} tasks are in {arguments.out}: patchgrad tasks stats {arguments.out}")
    return int(len(mined.members) < wish.count)


def _wish(arguments: argparse.Namespace) -> Wish:
    if arguments.count < 1 or arguments.runs < 1:
        raise ConfigError("--count and --runs must be at least 1.")
    for name in ("since", "until"):
        _day(name, getattr(arguments, name))
    return Wish(arguments.count, arguments.since, arguments.until, arguments.runs, arguments.evaluation, os.cpu_count() or 1)


def _day(name: str, given: str) -> None:
    try:
        right = not given or date.fromisoformat(given).isoformat() == given
    except ValueError:
        right = False
    if not right:
        raise ConfigError(f"--{name} {given} is no day: write it as in 2024-05-31.")


def _command(arguments: argparse.Namespace) -> str:
    """What made the tasks, as it can be typed again; where the repository and the set lie makes no difference."""
    words = ["patchgrad", "tasks", "mine", arguments.source if "://" in arguments.source else Path(arguments.source).name]
    words += ["--count", str(arguments.count), "--runs", str(arguments.runs)]
    for name in ("since", "until"):
        words += [f"--{name}", getattr(arguments, name)] if getattr(arguments, name) else []
    return shlex.join([*words, *["--evaluation"] * arguments.evaluation])


def _sentence(mined: Mined, cpu: float) -> str:
    looked = len(mined.members) + sum(mined.rejected.values())
    versions = Counter(member.task.tags["packages"] for member in mined.members)
    packages = ", ".join(f"{count} {name}" for name, count in sorted(versions.items()))
    told = f" The others: {listed(mined.rejected)}." if mined.rejected else ""
    return f"{mined.project.name}: {len(mined.members)} tasks of {looked} commits, {cpu:.0f} s of CPU; packages: {packages}.{told}"


def _plain(mined: Mined, cpu: float) -> dict[str, object]:
    return {
        "project": mined.project.name,
        "newest": mined.newest,
        "tasks": [member.task.id for member in mined.members],
        "rejected": dict(mined.rejected),
        "packages": dict(Counter(member.task.tags["packages"] for member in mined.members)),
        "cpu_seconds": round(cpu, 2),
    }
