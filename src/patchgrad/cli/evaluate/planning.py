"""Of `patchgrad evaluate`: how many runs a question needs."""

from __future__ import annotations

import argparse
import json

from patchgrad.errors import ConfigError
from patchgrad.evaluation.sample_size import SampleSize, assumed_noise, even_and_concentrated, noise_of, plan, spread_of
from patchgrad.evaluation.summary import outcomes_of
from patchgrad.store import plain, read_report
from patchgrad.values import Report


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the words of a plan."""
    words = "plan runs, from no report, from one of a like policy, or from two of the policies that are to be compared"
    group = parser.add_argument_group("a plan")
    group.add_argument("--plan", metavar="REPORT", nargs="*", help=words)
    group.add_argument("--difference", metavar="POINTS", type=float, help="the difference that is to be seen, in points of Pass@1")
    group.add_argument("--power", metavar="P", type=float, help="the chance to see it (default: 0.8)")
    group.add_argument("--size", metavar="N", type=int, help="tasks (default: those of the report)")
    group.add_argument("--rate", metavar="PERCENT", type=float, help="without a report: the solve rate that is expected")
    group.add_argument("--alike", metavar="R", type=float, help="and the correlation of attempts at a task (default: 0.5)")


def run(arguments: argparse.Namespace) -> int:
    """Say how many runs, under which assumptions."""
    reports = [read_report(source) for source in arguments.plan]
    if arguments.difference is None:
        raise ConfigError("Say which difference is to be seen, in points, as in --difference 2.")
    tasks, noise, source = _known(arguments, reports)
    difference, power = arguments.difference / 100, 0.8 if arguments.power is None else arguments.power
    if len(reports) == 2:
        plans = {"as their pilot": plan(difference, tasks, noise, spread_of(*reports), power)}
    else:
        even, concentrated = even_and_concentrated(difference, tasks, noise, power)
        plans = {"every task gains alike": even, "few tasks gain all": concentrated}
    if arguments.json:
        print(json.dumps({name: plain(found) for name, found in plans.items()} | {"noise": source}))
        return 0
    print(
        f"To see {arguments.difference:g} points on {tasks} tasks in {100 * power:g} % of such comparisons, at a level of 5 %, "
        "each policy needs"
    )
    for name, found in plans.items():
        print(f"  {_needs(found)} if {_when(name, found)}")
    print(f"Attempts at one task vary as {source}. Formula: arXiv 2411.00640; patchgrad.evaluation.sample_size states it.")
    return 0


def _known(arguments: argparse.Namespace, reports: list[Report]) -> tuple[int, float, str]:
    """Tasks, noise, and in words where the noise is from."""
    if len(reports) > 2:
        raise ConfigError(f"A plan is made from at most two reports, and {len(reports)} were given.")
    if reports:
        names = " and ".join(report.name for report in reports)
        noise = noise_of(reports)
        if noise != noise:
            raise ConfigError(f"{names} has one run a task, which does not tell how attempts vary: measure it twice, or give --rate.")
        return arguments.size or len(outcomes_of(reports[0])), noise, f"in {names}"
    if arguments.size is None or arguments.rate is None:
        raise ConfigError("Without a report a plan needs --size, how many tasks, and --rate, the solve rate that is expected in percent.")
    alike = 0.5 if arguments.alike is None else arguments.alike
    if not 0 <= arguments.rate <= 100 or not 0 <= alike <= 1:
        raise ConfigError("--rate is a share in percent, from 0 to 100, and --alike a correlation, from 0 to 1.")
    words = f"they do at a solve rate of {arguments.rate:g} % and a correlation of {alike:g}"
    return arguments.size, assumed_noise(arguments.rate / 100, alike), words


def _needs(found: SampleSize) -> str:
    if found.runs is None:
        return f"more tasks, at least {found.least}, however many runs are made,"
    return f"{found.runs} run{'s' if found.runs > 1 else ''}"


def _when(name: str, found: SampleSize) -> str:
    if name == "every task gains alike":
        return "every task gains alike,"
    if name == "few tasks gain all":
        return f"{100 * found.difference:g} % of the tasks go from never to always, and the others gain nothing."
    return f"gains differ from task to task by {100 * found.spread:.1f} points, as they did in the two reports."
