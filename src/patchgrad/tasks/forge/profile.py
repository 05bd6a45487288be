"""What a project's own suite is worth: which tests can be relied on, how long they take and what they cover."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import write_whole
from patchgrad.tasks.forge.clocks import by_the_clock, of_a_day, today
from patchgrad.tasks.forge.silent import BROKEN, Silent, silent
from patchgrad.tasks.projects.project import Project
from patchgrad.tasks.running import Asked, Run, Runner

SLOW = 1.0
RUNS = 5
_SECONDS = 240
_HOPELESS = 3  # times as slow as allowed in the first run, on a machine that may be busy
_OTHER_ID = "another id in another run"


@dataclass(frozen=True, slots=True)
class Profile:
    """`tests`: the reliable ones and their seconds; `files`: seconds of a test file with all that is in it.

    `broken` are the files that cannot be collected, and why, `idle` those that can and give no test. `left_out` counts the tests that are
    not relied on, by reason; of a file that gives none, those that its source has.
    """

    tests: Mapping[str, float]
    files: Mapping[str, float]
    broken: Mapping[str, str]
    cover: Mapping[str, Mapping[int, tuple[str, ...]]]
    left_out: Mapping[str, int]
    idle: Mapping[str, str] = field(default_factory=dict)

    def covering(self, path: str, first: int, last: int, earliest: int) -> set[str]:
        """The reliable tests that run one of these lines, or the nearest traced line above in the function from `earliest` on."""
        lines = self.cover.get(path, {})
        found = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        while not found and first > earliest:  # within a statement of several lines only some are traced
            first -= 1
            found = set(lines.get(first, ()))
        return found


async def profile(project: Project, files: Mapping[str, bytes], run: Runner, kept: Path | None = None) -> Profile:
    """Five runs under five hash seeds, in five orders: a test counts when it passes in each and takes at most a second.

    But not where it judges by the clock (`by_the_clock`), or where its id names the day (`of_a_day`): five runs show nothing of either.

    The first is of all tests, so is the second, which turns them round, and the others are of those that count so far; the last one is
    traced. The result is kept in the file `kept`, since it is good for every seed. `TaskError` for a suite with nothing reliable in it.
    """
    if kept and kept.exists():
        return _load(kept)
    suites = [p for p in files if project.is_suite(p)]
    sources = [p for p in files if project.is_source(p)]
    days = today()
    first = _ended(project, await run(files, suites, places=project.tests, variation=0, seconds=_SECONDS))
    seconds = {test: first.seconds.get(test, 0.0) for test in first.outcomes}
    reasons = {test: _first_reason(outcome, seconds[test]) for test, outcome in first.outcomes.items()}
    clocked = {f"{path}::{name}" for path in suites for name in by_the_clock(files[path])}
    lost = silent(first, files, suites)
    reasons |= {test: BROKEN for test in reasons if test.split("::")[0] in lost.broken}
    reasons |= {test: "by the clock" for test in reasons if test.partition("[")[0] in clocked}
    reasons |= {test: "of a day" for test in reasons if any(of_a_day(test, day) for day in days)}
    again = first
    for number in range(1, RUNS):
        traced = number == RUNS - 1
        if traced:
            reasons |= {test: "slow" for test, reason in reasons.items() if not reason and seconds[test] > SLOW}
        good = sorted(test for test, reason in reasons.items() if not reason)
        if good:
            cover, limit = (sources, 4 * _SECONDS) if traced else ((), _SECONDS)
            tests, asked = suites if number == 1 else good, Asked(cover=cover)
            again = _ended(project, await run(files, tests, places=project.tests, asked=asked, variation=number, seconds=limit))
            reasons |= _later_reasons(good, again)
        if not traced:
            seconds |= {test: min(seconds[test], again.seconds[test]) for test in good if test in again.seconds}
    found = _profile(project, first, again, seconds, reasons, lost)
    if kept:
        write_whole(kept, json.dumps(asdict(found)).encode())
    return found


def _ended(project: Project, run: Run) -> Run:
    if run.state != "ok":
        raise TaskError(f"The tests of {project.id} do not come to an end ({run.state}): it cannot be used.")
    return run


def _first_reason(outcome: str, seconds: float) -> str:
    return outcome if outcome != "passed" else "slow" if seconds > _HOPELESS * SLOW else ""


def _later_reasons(asked: Sequence[str], run: Run) -> dict[str, str]:
    """Why tests that passed so far cannot be relied on after this run."""
    shifting = {t.split("[")[0] for t in asked if t not in run.outcomes}  # ids made from an order that varies
    other = {test: _OTHER_ID for test in asked if test.split("[")[0] in shifting}
    return {test: "flaky" for test in asked if run.outcomes.get(test) != "passed"} | other


def _profile(project: Project, first: Run, traced: Run, seconds: Mapping[str, float], reasons: Mapping[str, str], lost: Silent) -> Profile:
    good = {test: seconds[test] for test in sorted(reasons) if not reasons[test]}
    if not good:
        raise TaskError(f"No test of {project.id} passes {RUNS} times in {RUNS} orders: {_why(first)}")
    spent: dict[str, float] = {}
    for test, s in seconds.items():
        spent[test.split("::")[0]] = spent.get(test.split("::")[0], 0.0) + s
    cover = {p: {line: tuple(t for t in tests if t in good) for line, tests in c.items()} for p, c in traced.cover.items()}
    left_out = Counter(reason for reason in reasons.values() if reason) + Counter(lost.uncounted)
    return Profile(good, spent, lost.broken, cover, dict(left_out), lost.idle)


def _why(run: Run) -> str:
    told = Counter(
        [*(reason.strip().splitlines()[-1] for reason in run.reasons if reason.strip()), *(f.message for f in run.failures.values())]
    )
    words = " ".join(told.most_common(1)[0][0].split())[:200] if told else "there is none."
    return f"most often it is {words!r}" if told else words


def _load(path: Path) -> Profile:
    data = json.loads(path.read_bytes())
    cover = {p: {int(line): tuple(tests) for line, tests in lines.items()} for p, lines in data["cover"].items()}
    return Profile(data["tests"], data["files"], data["broken"], cover, data["left_out"], data["idle"])
