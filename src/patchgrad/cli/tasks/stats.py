"""what is in a set: a table by package and family, and where it comes from

Counts, the reasons for which candidates became no task, and where everything is from:

  patchgrad tasks stats sets/mine
  patchgrad tasks stats sets/mine --page mine.html
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from patchgrad.cli import options as shared
from patchgrad.errors import Refused
from patchgrad.tasks.archive import write_whole
from patchgrad.tasks.sets import Member, members, read_origins
from patchgrad.viewer.page import tasks_page
from patchgrad.viewer.tasks import families_of


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("set", metavar="SET", help="a set's folder")
    parser.add_argument("--page", metavar="FILE", help="write a page with the table and a plot by package and family")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Count and print."""
    refused = Refused()
    found = members(Path(arguments.set), refused)
    refused.unless(found)
    told = figures(found)
    if arguments.page:
        facts = {"from": f"{len(told['packages'])} packages", **{name: _listed(told[name]) for name in ("kind", "split", "licence")}}
        write_whole(Path(arguments.page), tasks_page(Path(arguments.set).resolve().name, [m.task for m in found], facts).encode())
    if arguments.json:
        print(json.dumps(told | {"origins": [[o.name, o.version, o.tasks, dict(o.rejected)] for o in read_origins(Path(arguments.set))]}))
        return shared.told(refused.sentences)
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"{told['tasks']} tasks from {len(told['packages'])} packages; fail-to-pass {told['fail_to_pass']} in the median")
    for name in ("kind", "split", "licence"):
        console.print(f"{name:<8} {_listed(told[name])}", markup=False)
    table = Table("package", *told["kind"], "all", "families", box=None, padding=(0, 2), header_style="dim")
    for column in table.columns[1:]:
        column.justify = "right"
    for package, kinds in told["packages"].items():
        own = {family for m in found if m.task.tags.get("package", "") == package for family in families_of(m.task)}
        table.add_row(package or "none", *(str(kinds.get(kind, 0)) for kind in told["kind"]), str(sum(kinds.values())), str(len(own)))
    console.print(table)
    console.print(f"family   {_listed(told['family'])}", markup=False)
    for origin in read_origins(Path(arguments.set)):
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(origin.rejected.items(), key=lambda item: -item[1]))
        console.print(f"{origin.name} {origin.version}: {origin.tasks} tasks; no task because {reasons or 'nothing'}", markup=False)
    return shared.told(refused.sentences)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{key or 'none'} {count}" for key, count in counts.items())


def figures(found: list[Member]) -> dict[str, Any]:
    """The counts of a set, most frequent first; a pair counts for the families of both of its bugs."""
    tasks = [member.task for member in found]
    counted = {name: dict(Counter(task.tags.get(name, "") for task in tasks).most_common()) for name in ("kind", "split", "licence")}
    counted["family"] = dict(Counter(family for task in tasks for family in families_of(task)).most_common())
    packages: dict[str, Counter[str]] = {}
    for task in tasks:
        packages.setdefault(task.tags.get("package", ""), Counter())[task.tags.get("kind", "")] += 1
    broken = median(len(task.checks.fail_to_pass) for task in tasks) if tasks else 0
    return {"tasks": len(tasks), "fail_to_pass": broken, "packages": {name: dict(packages[name]) for name in sorted(packages)}, **counted}
