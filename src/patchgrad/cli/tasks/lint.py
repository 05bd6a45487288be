"""is every task of a set what it says? A verdict a task, with evidence

The solution and the unrepaired repository are graded again and again, under other hash seeds, in other orders, on other days and on a
crowded machine; patches that repair nothing must not win; the answer must not be readable; no bug may be there twice.

  patchgrad tasks lint sets/mine
  patchgrad tasks lint sets/mine --runs 20 --fix            take what is not sound out of the set, into its quarantine.jsonl
  patchgrad tasks lint sets/mine --filter nebius2508        the four filters of arXiv 2508.03501, with its 50 runs

An interrupted call goes on where it was when it is made again. Exit code 1 when something was found and left in the set, or a row of it is
no task: such a row is told, and left as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from patchgrad.cli.options import told
from patchgrad.errors import ConfigError, Refused, TaskError
from patchgrad.grading import Conditions, grade
from patchgrad.grading.canaries import Canaries
from patchgrad.packages.resolving import resolve
from patchgrad.packages.sites import cache
from patchgrad.runs.trackers.terminal import choose
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.tasks.linting import Checked, LintOptions, Report, lint
from patchgrad.tasks.linting.chance import power
from patchgrad.tasks.linting.findings import MEANINGS
from patchgrad.tasks.sets import Member, members, quarantine
from patchgrad.values import Advanced, Note, PhaseBegan, Task, Verdict, digest

RUNS, PAPER_RUNS = 5, 50
FILTERS = ("nebius2508",)
DAY = 86_400


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("set", metavar="SET", help="a set's folder")
    parser.add_argument("--runs", metavar="N", type=int, help=f"gradings of each patch (default: {RUNS}, with a filter {PAPER_RUNS})")
    parser.add_argument("--filter", metavar="NAME", choices=FILTERS, help=f"a paper's filters on top: {', '.join(FILTERS)}")
    parser.add_argument("--sample", metavar="N", type=int, help="only so many tasks, drawn by the seed 0")
    parser.add_argument("--fix", action="store_true", help="move tasks that are not sound out of the set, into quarantine.jsonl beside it")
    parser.add_argument("--concurrency", metavar="N", type=int, default=os.cpu_count() or 1, help="tasks at once (default: one a core)")
    parser.add_argument("--json", action="store_true", help="one JSON object, no progress")


def run(arguments: argparse.Namespace) -> int:
    """Lint, tell, and mend the set where that is asked."""
    folder = Path(arguments.set)
    runs = arguments.runs if arguments.runs is not None else PAPER_RUNS if arguments.filter else RUNS
    if runs < 1 or arguments.concurrency < 1 or (arguments.sample is not None and arguments.sample < 1):
        raise ConfigError("--runs, --concurrency and --sample must be at least 1.")
    refused = Refused()
    found = members(folder, refused)
    refused.unless(found)
    chosen = found if arguments.sample is None else random.Random(0).sample(found, min(arguments.sample, len(found)))
    if not chosen:
        raise TaskError(f"{folder} has no tasks.")
    with choose(arguments.json) as tracker:
        tracker.event(PhaseBegan(f"lint {len(chosen)} tasks", len(chosen)))

        def tell(checked: Checked) -> None:
            tracker.event(Advanced(1, {"sound": checked.sound}))
            tracker.event(Note(f"{checked.task}: {checked.findings[0].evidence if checked.findings else 'sound'}"))

        kept = cache() / "lint" / f"{digest(str(folder.resolve()))[:16]}.jsonl"
        report = asyncio.run(
            _lint(chosen, LintOptions(runs, arguments.filter is not None, concurrency=arguments.concurrency, kept=kept), tell)
        )
    unsound = [one for one in report.checked if not one.sound]
    if arguments.fix and unsound:
        quarantine(folder, {one.task: [asdict(finding) for finding in one.findings] for one in unsound})
    if arguments.json:
        print(json.dumps(_plain(report) | refused.told))
    else:
        _tell(report, folder, arguments.fix)
    return told(refused.sentences) or int(bool(unsound) and not arguments.fix)


async def _lint(chosen: Sequence[Member], plan: LintOptions, tell: Callable[[Checked], None]) -> Report:
    boxes = BwrapSandboxes(2 * plan.concurrency, warm=True)
    clock = resolve(["time-machine"]) if plan.runs > 2 else ()

    async def judge(task: Task, patch: str, number: int) -> Verdict:
        conditions = _conditions(number)
        with_clock = bool(conditions.clock) and task.repository.kind == "archive"
        moved = replace(task, packages=(*task.packages, *clock)) if with_clock else task
        return await grade(moved, patch, boxes, run_empty=True, conditions=conditions)

    async def untold(task: Task) -> int:
        return len(await canaries.untold(task))

    canaries = Canaries(boxes, {member.task.id: member.repair for member in chosen})
    try:
        return await lint(chosen, judge, boxes, plan, tell, untold)
    finally:
        await boxes.close()


def _conditions(number: int) -> Conditions:
    """Run 0 is as usual. Every other one has its own order, every second a hash seed, every fifth another date, every sixteenth a crowd.

    The dear ones are rarer, and five runs have one of each: a crowd costs five times what the usual run does, a hash seed twice.
    """
    if number == 0:
        return Conditions()
    return Conditions(
        hash_seed=number if number % 2 else 0,
        order=number,
        clock=number * 37 * DAY if number % 5 == 2 else 0,
        crowd=2 * (os.cpu_count() or 1) if number % 16 == 4 else 0,
    )


def _plain(report: Report) -> dict[str, object]:
    return {
        "tasks": len(report.checked),
        "sound": sum(one.sound for one in report.checked),
        "counts": dict(report.counts),
        "runs": report.runs,
        "noticed": report.noticed,
        "bound": report.bound,
        "untold": sum(one.untold for one in report.checked),
        "checked": [asdict(one) for one in report.checked],
    }


def _tell(report: Report, folder: Path, fixed: bool) -> None:
    unsound = [one for one in report.checked if not one.sound]
    for one in unsound:
        print(one.task)
        for finding in one.findings:
            print(f"  {finding.kind:<10} {finding.evidence}")
    print(f"{len(report.checked) - len(unsound)} of {len(report.checked)} tasks are sound.")
    for kind, count in sorted(report.counts.items(), key=lambda item: -item[1]):
        print(f"  {count:>5} {kind}: {MEANINGS[kind]}")
    seen = ", ".join(f"{rate:.0%} of runs with {power(rate, report.runs):.0%}" for rate in (0.05, 0.2, 0.5))
    print(f"Each patch was graded {report.runs} times. The certainty to notice a test that deviates in {seen}.")
    print(f"Of the sound tasks' runs at most {report.bound:.2%} end in another verdict (95 %).")
    if quiet := sum(one.untold for one in report.checked):
        print(
            f"{quiet} expected tests pass with broken expectations, or have none: a patch that talks them into passing is not seen there."
        )
    if fixed and unsound:
        print(f"{len(unsound)} tasks were moved to {folder / 'quarantine.jsonl'}.")
