"""Is a bug a task? Cheap questions first: does it compile, do the tests that run it notice, can it be told, is all of that always so?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from patchgrad.tasks.forge.candidates import Candidate
from patchgrad.tasks.forge.checks import make_checks
from patchgrad.tasks.forge.hiding import hide
from patchgrad.tasks.forge.profile import Profile
from patchgrad.tasks.mutations import Mutant, apply
from patchgrad.tasks.probes import probes
from patchgrad.tasks.projects.project import Project
from patchgrad.tasks.running import Asked, Failure, Run, Runner
from patchgrad.tasks.sets import unified
from patchgrad.tasks.sources import text_of
from patchgrad.tasks.statements.honest import honest
from patchgrad.tasks.statements.leaks import secrets_of
from patchgrad.tasks.statements.symptom import names_the_bug, rank, statements
from patchgrad.tasks.trees import copies, touched

MOST_BROKEN = 50
SCREENED = 30


@dataclass(frozen=True, slots=True)
class Shop:
    """Where bugs are tried: a project's tree without tests that do not import, what is known of its tests, and what runs them."""

    project: Project
    files: Mapping[str, bytes]
    profile: Profile
    run: Runner
    seed: int = 0
    confirmations: int = 5
    visible_tests: bool = False


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug that the tests notice: the same ones in every order. `mutants` are in the order of the candidate's edits."""

    candidate: Candidate
    mutants: tuple[Mutant, ...]
    files: Mapping[str, bytes]
    broken: tuple[str, ...]
    failures: Mapping[str, Failure]
    levels: Mapping[str, str]


async def attempt(shop: Shop, candidate: Candidate) -> Bug | str:
    """The bug, or in two or three words why it is none."""
    planted = plant(shop.files, candidate)
    if planted is None:
        return "no change"
    mutants, files = planted
    screened = await screen(shop, candidate, files)
    if isinstance(screened, str):
        return screened
    found = await _confirm(shop, files, 0)
    if isinstance(found, str):
        return found
    broken, run = found
    if any((test in screened.failing) != (test in broken) for test in screened.tests):
        return "unstable"
    if not shop.visible_tests and not _hidden(shop, broken):
        return "tests cannot be hidden"
    repair = _repair(shop, files)
    if copies(repair, shop.files, shop.files, touched(repair)):  # as a backup or a second copy would
        return "stands elsewhere too"
    told = {test: run.failures[test] for test in broken if test in run.failures}
    failures = await honest(shop.run, shop.files, files, shop.project.tests, told)
    levels = _levels(shop, candidate, mutants, files, broken, failures)
    if isinstance(levels, str):
        return levels
    if await _weak(shop, candidate, files, broken, probes(repair, files, levels["report"]).values()):
        return "weak"
    for variation in range(1, shop.confirmations):
        again = await _confirm(shop, files, variation)
        if isinstance(again, str) or again[0] != broken:
            return "unstable"
    return Bug(candidate, mutants, files, broken, failures, levels)


def plant(files: Mapping[str, bytes], candidate: Candidate) -> tuple[tuple[Mutant, ...], dict[str, bytes]] | None:
    """The tree with the bug, and what was done to it; `None` where an edit would not compile or would mean the same."""
    changed, mutants = dict(files), []
    for path, edit in sorted(candidate.edits, key=lambda e: -e[1].start):  # the later one first: the earlier one's place stays right
        mutant = apply(text_of(changed[path]), edit)
        if mutant is None:
            return None
        changed[path] = mutant.source.encode()
        mutants.append((edit, mutant))
    return tuple(next(m for e, m in mutants if e is edit) for _, edit in candidate.edits), changed


@dataclass(frozen=True, slots=True)
class Screened:
    """The tests that were run on a bug, and those that noticed it."""

    tests: Sequence[str]
    failing: Sequence[str]


async def screen(shop: Shop, candidate: Candidate, files: Mapping[str, bytes]) -> Screened | str:
    """What the tests that run the changed lines say, or thirty spread over them; or why it is no task."""
    tests = _spread(candidate.covering)
    run = await _run(shop, files, tests, 0, explain=False)
    if run.state != "ok" or run.broken:
        return run.state if run.state != "ok" else "does not import"
    failing = [test for test in tests if run.outcomes.get(test) != "passed"]
    if not failing:
        return "survived"
    if len(failing) * len(candidate.covering) / len(tests) > 2 * _most(shop):
        return "breaks too much"
    return Screened(tests, failing)


def _repair(shop: Shop, files: Mapping[str, bytes]) -> str:
    changed = [path for path, content in files.items() if content != shop.files[path]]
    return "".join(unified(path, files[path].decode(), shop.files[path].decode()) for path in changed)


async def _weak(
    shop: Shop, candidate: Candidate, files: Mapping[str, bytes], broken: Sequence[str], wrong: Iterable[Mapping[str, str]]
) -> bool:
    """Would one of these wrong repairs pass the checks of the task? What the bug broke is asked first, and mostly says no."""
    checks = make_checks(shop.project, files, shop.profile, broken, candidate.covering, shop.seed)
    for changed in wrong:
        tree = {**files, **{path: text.encode() for path, text in changed.items()}}
        if await _pass(shop, tree, checks.fail_to_pass) and await _pass(shop, tree, checks.pass_to_pass):
            return True
    return False


async def _pass(shop: Shop, files: Mapping[str, bytes], tests: Sequence[str]) -> bool:
    run = await _run(shop, files, tests, 0, explain=False)
    return all(run.outcomes.get(test) in ("passed", "skipped") for test in tests)


def _hidden(shop: Shop, broken: Sequence[str]) -> bool:
    """Can they be taken out, and from nowhere but tests? A class that tests inherit from may be of the package itself."""
    found = hide(shop.files, broken)
    return found is not None and all(shop.project.is_test(path) for path in found)


async def _confirm(shop: Shop, files: Mapping[str, bytes], variation: int) -> tuple[tuple[str, ...], Run] | str:
    """All reliable tests: the broken ones, if they are of a number that makes a task."""
    pool = shop.profile.tests
    run = await _run(shop, files, sorted(pool), variation, explain=variation == 0)
    if run.state != "ok" or run.broken or any(test not in run.outcomes for test in pool):
        return run.state if run.state != "ok" else "does not import"
    broken = tuple(test for test in sorted(pool) if run.outcomes[test] not in ("passed", "skipped"))
    if not 1 <= len(broken) <= _most(shop):
        return "breaks too much" if broken else "survived"
    return broken, run


def _most(shop: Shop) -> int:
    return min(MOST_BROKEN, len(shop.profile.tests) // 2)


def _levels(
    shop: Shop,
    candidate: Candidate,
    mutants: Sequence[Mutant],
    files: Mapping[str, bytes],
    broken: Sequence[str],
    failures: Mapping[str, Failure],
) -> dict[str, str] | str:
    implement = candidate.kind == "implement"
    if not failures:
        return "says nothing"
    if not implement and names_the_bug(failures.values()):
        return "names the bug"
    groups = _groups(candidate, failures)
    if not all(groups):
        return "says one of two"
    told = [min(group, key=rank) for group in groups]
    repair = "".join(f"+{line}\n" for mutant in mutants for line in mutant.before.splitlines())
    secrets = secrets_of(repair, broken, made_by=candidate.family.split("+"))
    places = [(path, mutant.function, mutant.line) for (path, _), mutant in zip(candidate.edits, mutants, strict=True)]
    return statements(shop.project.name, places, files, shop.project.paths, told, secrets, implement)


def _groups(candidate: Candidate, failures: Mapping[str, Failure]) -> list[list[Failure]]:
    """One for each part of a pair: the failures that are its own."""
    if len(candidate.alone) < 2:
        return [list(failures.values())]
    one, other = (set(tests) for tests in candidate.alone)
    own = [[failures[t] for t in failures if t in mine - theirs] for mine, theirs in ((one, other), (other, one))]
    return own


async def _run(shop: Shop, files: Mapping[str, bytes], tests: Sequence[str], variation: int, explain: bool) -> Run:
    seconds = 2.0 + 5 * sum(shop.profile.tests[test] for test in tests)
    return await shop.run(files, tests, places=shop.project.tests, asked=Asked(explain=explain), variation=variation, seconds=seconds)


def _spread(tests: Sequence[str]) -> list[str]:
    return [tests[i * len(tests) // SCREENED] for i in range(SCREENED)] if len(tests) > SCREENED else list(tests)
