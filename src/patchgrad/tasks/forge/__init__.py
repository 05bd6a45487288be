"""The forge makes repair tasks from a project that has tests: break a line, keep what the tests notice, say it in words.

    project -> furnish (what its tests need) -> profile (which tests are reliable, what they cover) -> plant a bug -> screen on the covering
            tests -> confirm on the suite under other hash seeds and in other orders -> statement -> task

The forge proposes. Whether a task holds in the sandbox where agents work is decided by the project's grader, which must fail the
repository as it is and pass it with the repair (`patchgrad tasks lint`). Every candidate's fate is written down when it is known, so that
a killed run goes on where it was, and every one that became no task is counted under its reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchgrad.packages.sites import ensure_site
from patchgrad.tasks.archive import write_whole
from patchgrad.tasks.forge.candidates import SHARES, Candidate, Kind, Limits, pairs, single
from patchgrad.tasks.forge.emit import emit
from patchgrad.tasks.forge.ledger import Ledger
from patchgrad.tasks.forge.profile import Profile, profile
from patchgrad.tasks.forge.trial import Shop, attempt
from patchgrad.tasks.mutations import FAMILIES
from patchgrad.tasks.ordered import in_order
from patchgrad.tasks.projects.furnish import furnish, prepare
from patchgrad.tasks.projects.project import Project
from patchgrad.tasks.running import Runner
from patchgrad.tasks.sets import Member
from patchgrad.tasks.sources import barred

__all__ = ["SHARES", "Forged", "Order", "Profile", "forge", "profile"]

FRUITLESS = 300
"""Candidates without a single task after which a project is given up. All of polib's 1,210 fell, since its tests read data files."""

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Order:
    """What is wanted of a project: how many tasks, of which kinds and families, and how sure of each.

    `confirmations` are runs of all reliable tests, each under another hash seed and in another order. `visible_tests` leaves the tests that
    decide in the agent's tree; `quiet` makes pytest say little there.
    """

    count: int = 20
    seed: int = 0
    families: tuple[str, ...] = tuple(FAMILIES)
    shares: Mapping[Kind, float] | None = None
    confirmations: int = 5
    visible_tests: bool = False
    quiet: bool = False
    workers: int = 2


@dataclass(frozen=True, slots=True)
class Forged:
    """What became of a project: its tasks, its reliable tests, and how many candidates fell for which reason.

    `barred` are sources that carry no bugs, and why.
    """

    project: Project
    members: tuple[Member, ...]
    profile: Profile
    rejected: Mapping[str, int]
    barred: Mapping[str, str]


async def forge(
    project: Project,
    files: Mapping[str, bytes],
    order: Order,
    runner: Callable[[Path], Runner],
    folder: Path,
    progress: Progress | None = None,
    fruitless: int = FRUITLESS,
) -> Forged:
    """Makes tasks in `folder`, whose files let an interrupted call go on; `runner` gives what runs tests with the packages of a site.

    The same arguments give the same tasks, whether the work was interrupted or not. The progress is called with the tasks so far, the
    candidates so far and the last one's fate. After so many `fruitless` candidates the project is given up. `TaskError` for a project
    whose tests are of no use.
    """
    project = await _furnished(project, files, order.quiet, runner, folder / "packages.json")
    complete, run = prepare(project, files, order.quiet), runner(ensure_site(project.packages))
    known = await profile(project, complete, run, folder / "profile.json")
    tree = {path: content for path, content in complete.items() if path not in known.broken}
    bench = _Bench(
        Shop(project, tree, known, run, order.seed, order.confirmations, order.visible_tests), order, folder, progress, fruitless
    )
    singles = single(project, tree, known, order.seed, order.families)
    await bench.work(("repair", "implement"), singles)
    await bench.work(("pair",), pairs(bench.singles, order.seed))
    bench.limits.fill()
    await bench.work(("repair",), singles)
    unfit = {path: reason for path, content in sorted(tree.items()) if project.is_source(path) and (reason := barred(content))}
    return Forged(project, tuple(bench.made.values()), known, dict(sorted(bench.rejected.items())), unfit)


async def _furnished(project: Project, files: Mapping[str, bytes], quiet: bool, runner: Callable[[Path], Runner], kept: Path) -> Project:
    """The project with its packages, as they were found now or by an earlier call."""
    if not kept.exists():
        found = (await furnish(project, files, runner, quiet=quiet)).project
        write_whole(kept, json.dumps({"packages": found.packages, "plugins": found.plugins}).encode())
    told = json.loads(kept.read_bytes())
    return replace(project, packages=tuple(told["packages"]), plugins=tuple(told["plugins"]))


class _Bench:
    """Candidates on their way, and what has become of those before them."""

    def __init__(self, shop: Shop, order: Order, folder: Path, progress: Progress | None, most: int) -> None:
        self._shop, self._order, self._archives, self._progress, self._most = shop, order, folder / "archives", progress, most
        self.limits = Limits(order.count, order.families, order.shares or SHARES)
        self._ledger = Ledger(folder)
        self.made: dict[str, Member] = {}
        self.singles: dict[Candidate, tuple[str, ...]] = {}
        self.rejected: Counter[str] = Counter()

    async def work(self, kinds: Sequence[Kind], candidates: Iterator[Candidate]) -> None:
        """Tries candidates until there are tasks enough of each kind."""
        draw = lambda: self._next(kinds, candidates)  # noqa: E731
        async for candidate, fate in in_order(draw, self._fate, self._order.workers, self._wanted, self._settled):
            if isinstance(fate, Member):
                self.made[candidate.key] = fate
                self.limits.took(candidate)
                if candidate.kind == "repair":
                    self.singles[candidate] = fate.task.checks.fail_to_pass
            else:
                self.rejected[fate] += 1
            self._ledger.write(candidate.key, fate)
            if self._progress:
                word = fate if isinstance(fate, str) else "task"
                self._progress(len(self.made), len(self.made) + self.rejected.total(), word)

    @property
    def _fruitless(self) -> bool:
        return not self.made and not self._ledger.tasks and self.rejected.total() >= self._most

    def _wanted(self, candidate: Candidate) -> bool:
        return not self._fruitless and self.limits.admit(candidate)

    def _settled(self, candidate: Candidate) -> bool:
        return self._ledger.settled(candidate.key)

    def _next(self, kinds: Sequence[Kind], candidates: Iterator[Candidate]) -> Candidate | None:
        if self._fruitless or not any(self.limits.wants(kind) for kind in kinds):
            return None
        return next((candidate for candidate in candidates if self.limits.admit(candidate)), None)

    async def _fate(self, candidate: Candidate) -> Member | str:
        if (fate := self._ledger.fate(candidate.key)) is not None:
            return fate
        bug = await attempt(self._shop, candidate)
        return bug if isinstance(bug, str) else emit(self._shop, bug, self._archives)
