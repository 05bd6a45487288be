"""Is a commit a task? Its tests are run on its parent and on itself; what they tell has to be the same in every run.

A test is fail-to-pass when it does not pass before the repair and passes after it; tests that pass in both are pass-to-pass. Rules:
arXiv 2505.20411, section 3, and the filters of arXiv 2508.03501, section 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from patchgrad.tasks.forge.checks import make_checks
from patchgrad.tasks.forge.profile import SLOW, Profile
from patchgrad.tasks.history.split import Split
from patchgrad.tasks.projects.furnish import alone
from patchgrad.tasks.running import Asked, Failure, Run, Runner
from patchgrad.tasks.statements.honest import honest
from patchgrad.values import Checks

MOST_BROKEN = 50
LONGEST = 20.0  # seconds of CPU for all test files of a task
WHOLE = 4.0  # seconds for which whole files are run; of slower ones only the tests that count
OTHERS = 8  # test files beside the commit's own, and their seconds together
SECONDS = 1.0
_WHOLE = 240.0


@dataclass(frozen=True, slots=True)
class Fix:
    """A commit whose tests tell the parent from the child: the checks, and how those tests fail without the repair."""

    checks: Checks
    failures: Mapping[str, Failure]


async def attempt(found: Split, run: Runner, runs: int) -> Fix | str:
    """The fix, or in a few words why it is none: first the commit's own test files, then the suite, then both again in other orders."""
    places = found.project.tests
    first = await run(found.before, found.suites, places=places, asked=Asked(explain=True), seconds=_WHOLE)
    if first.state != "ok":
        return "suite does not end"
    if not first.broken and all(_fine(outcome) for outcome in first.outcomes.values()):
        return "no fail-to-pass"
    whole = await run(found.after, _suites(found), places=places, seconds=_WHOLE)
    if whole.state != "ok":
        return "suite does not end"
    reason = _screened(found, first, whole)
    if reason:
        return reason
    chosen = _chosen(found, whole)
    before, after = [first] if set(chosen) == set(found.suites) else [], [whole]
    for variation in range(len(before), runs):
        before.append(await run(found.before, chosen, places=places, variation=variation, seconds=_WHOLE))
    for variation in range(1, runs):
        after.append(await run(found.after, chosen, places=places, variation=variation, seconds=_WHOLE))
    if any(done.state != "ok" for done in (*before, *after)):
        return "suite does not end"
    judged = _judged(chosen, before, after)
    if isinstance(judged, str):
        return judged
    traced = await run(found.after, chosen, places=places, asked=Asked(cover=found.sources), seconds=4 * _WHOLE)
    checks = _checks(found, judged, whole, traced)
    if not checks.pass_to_pass:
        return "nothing stays green"
    failures = {test: first.failures[test] for test in checks.fail_to_pass if test in first.failures}
    return Fix(checks, await honest(run, found.after, found.before, places, failures))


def _suites(found: Split) -> list[str]:
    return sorted(path for path in found.after if found.project.is_suite(path))


def _screened(found: Split, first: Run, whole: Run) -> str:
    """Why what was seen on one run each is no task."""
    lost = [path for path in first.broken if path not in whole.broken]
    turned = [test for test, outcome in whole.outcomes.items() if outcome == "passed" and _of(test, found.suites)]
    turned = [test for test in turned if first.outcomes.get(test) != "passed"]
    if not turned:
        return "no fail-to-pass"
    if lost and any(_of(test, lost) for test in turned):
        return "only import errors before"
    own = sum(whole.seconds[test] for test in whole.outcomes if _of(test, found.suites))
    return "slow tests" if max(own, sum(first.seconds.values())) > LONGEST else "too many tests fail" if len(turned) > MOST_BROKEN else ""


def _chosen(found: Split, whole: Run) -> list[str]:
    """The commit's own test files, and a few quick others: first those named after what it repairs, then those with most tests."""
    spent: dict[str, float] = dict.fromkeys(found.suites, 0.0)
    for test, seconds in whole.seconds.items():
        spent[test.split("::")[0]] = spent.get(test.split("::")[0], 0.0) + seconds
    stems = {PurePosixPath(path).stem for path in found.sources} | {PurePosixPath(path).parent.name for path in found.sources}
    count = Counter(test.split("::")[0] for test, outcome in whole.outcomes.items() if outcome == "passed")
    chosen, left = list(found.suites), SECONDS
    for path in sorted(spent, key=lambda p: (not _named(p, stems), -count[p], p)):
        if path not in chosen and spent[path] <= left and count[path] and len(chosen) < len(found.suites) + OTHERS:
            chosen.append(path)
            left -= spent[path]
    return sorted(chosen)


def _named(path: str, stems: Collection[str]) -> bool:
    return PurePosixPath(path).stem.removeprefix("test_").removesuffix("_test") in stems


@dataclass(frozen=True, slots=True)
class _Judged:
    broken: tuple[str, ...]
    green: tuple[str, ...]
    files: tuple[str, ...]


def _judged(chosen: Sequence[str], before: Sequence[Run], after: Sequence[Run]) -> _Judged | str:
    """What is so in every run. A test that is fail-to-pass in some runs only spoils the task; any other that varies is left out."""
    tests = sorted({test for run in after for test in run.outcomes if _of(test, chosen)})
    always = [test for test in tests if all(run.outcomes.get(test) == "passed" for run in after)]
    broken = [test for test in always if not any(run.outcomes.get(test) == "passed" for run in before)]
    green = [test for test in always if all(run.outcomes.get(test) == "passed" for run in before)]
    once = {
        test
        for old, new in zip(before, after, strict=True)
        for test in tests
        if old.outcomes.get(test) != "passed" and new.outcomes.get(test) == "passed"
    }
    if once != set(broken):
        return "unstable"
    if len(broken) > MOST_BROKEN:
        return "too many tests fail"
    spoilt = [test for test in tests if all(_passed(run, test) for run in before) and not any(_passed(run, test) for run in after)]
    if spoilt:
        return "breaks a test"
    return _Judged(tuple(broken), tuple(green), tuple(chosen)) if broken else "no fail-to-pass"


def _checks(found: Split, judged: _Judged, whole: Run, traced: Run) -> Checks:
    """The forge's choice of at most 60 tests that stay green, those that run the repaired files' changed lines first."""
    seconds = {test: whole.seconds.get(test, 0.0) for test in (*judged.broken, *judged.green)}
    files: dict[str, float] = dict.fromkeys(judged.files, 0.0)
    for test, spent in whole.seconds.items():
        if test.split("::")[0] in files:
            files[test.split("::")[0]] += spent
    good = {test: spent for test, spent in seconds.items() if test in judged.broken or spent <= SLOW}
    known = Profile(good, files, {}, traced.cover, {})
    near = {test for path, lines in _repaired(found.repair).items() for line in lines for test in traced.cover.get(path, {}).get(line, ())}
    checks = make_checks(found.project, found.tree, known, judged.broken, near & good.keys(), 0)
    command = checks.command
    if sum(files.get(word, 0.0) for word in command) > WHOLE:
        command = ("pytest", *alone(found.tree, judged.files), *checks.fail_to_pass, *checks.pass_to_pass)
    return replace(checks, command=command, patch=found.tests)


def _repaired(patch: str) -> dict[str, list[int]]:
    """The lines of each file, in its new state, that a patch adds, and those beside what it removes."""
    found: dict[str, list[int]] = {}
    path, line = "", 0
    for text in patch.split("\n"):
        if text.startswith("+++ "):
            path = text[6:].rstrip("\t")
        elif text.startswith("@@ "):
            line = int(text.split("+")[1].split(",")[0].split(" ")[0])
        elif text.startswith(("+", "-")) and not text.startswith("--- "):
            found.setdefault(path, []).append(line)
            line += text.startswith("+")
        elif text.startswith(" "):
            line += 1
    return found


def _of(test: str, files: Collection[str]) -> bool:
    return test.split("::")[0] in files


def _passed(run: Run, test: str) -> bool:
    return run.outcomes.get(test) == "passed"


def _fine(outcome: str) -> bool:
    return outcome in ("passed", "skipped", "xfailed", "xpassed")
