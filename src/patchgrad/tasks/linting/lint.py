"""Linting a set: what can be read first, then what must be run, the cheap before the dear; a task that is wrong is not run any further."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchgrad.contracts import Sandboxes
from patchgrad.errors import SandboxFault, SandboxLost, TaskError
from patchgrad.tasks.evaluation_sets import is_evaluation
from patchgrad.tasks.linting.chance import noticed, wilson
from patchgrad.tasks.linting.duplicates import fingerprint
from patchgrad.tasks.linting.filters import complexity, quality, references
from patchgrad.tasks.linting.findings import Checked, Finding, Kind
from patchgrad.tasks.linting.leaks import look, readable
from patchgrad.tasks.probes import probes
from patchgrad.tasks.sets import Member, append, rows, unified
from patchgrad.tasks.trees import first_state, touched
from patchgrad.values import Task, Verdict, digest

Grade = Callable[[Task, str, int], Awaitable[Verdict]]
"""(task, patch, number of the run) -> verdict; an empty patch is run too. Run 0 is under usual conditions, others under others."""

Untold = Callable[[Task], Awaitable[int]]
"""Task -> how many of its expected tests pass with each of their expectations broken, or have none (`grading.canaries`)."""


@dataclass(frozen=True, slots=True)
class LintOptions:
    """`runs` of the solution and as many without it; with `paper`, the paper's filters too. `concurrency` tasks are worked on at once.

    `kept` is a file that lets an interrupted call go on: what was found about each task so far.
    """

    runs: int = 5
    paper: bool = False
    probes: bool = True
    concurrency: int = 2
    kept: Path | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All tasks, in the set's order. `noticed` is the flake rate of a test that so many runs see with 95 % certainty."""

    checked: tuple[Checked, ...]
    runs: int
    noticed: float

    @property
    def counts(self) -> Mapping[Kind, int]:
        """Tasks with at least one finding of a kind; a task may count under several."""
        return Counter(kind for one in self.checked for kind in {finding.kind for finding in one.findings})

    @property
    def bound(self) -> float:
        """The upper end of the 95 % interval of the share of runs with another verdict, over all sound tasks together."""
        sound = [one for one in self.checked if one.sound and one.runs]
        return wilson(sum(one.deviations for one in sound), 2 * sum(one.runs for one in sound))[1]


async def lint(
    members: Sequence[Member],
    grade: Grade,
    sandboxes: Sandboxes,
    plan: LintOptions,
    tell: Callable[[Checked], None] | None = None,
    untold: Untold | None = None,
) -> Report:
    """Checks every member. Findings are evidence, not errors; what is `untold` is counted.

    `plan.kept` is removed when all are checked: the next call looks anew.
    """
    door = asyncio.Semaphore(plan.concurrency)
    first: dict[str, str] = {}
    twins = [_twin(first, member) for member in members]
    earlier = {row["key"]: _checked(row["checked"]) for row in rows(plan.kept)} if plan.kept else {}

    async def one(member: Member, twin: str) -> Checked:
        async with door:
            key = digest(repr((member, twin, plan.runs, plan.paper, plan.probes)))
            checked = earlier.get(key) or await _check(member, twin)
            if plan.kept and key not in earlier and not any(finding.kind == "fault" for finding in checked.findings):
                append(plan.kept, {"key": key, "checked": asdict(checked)})
            if tell:
                tell(checked)
            return checked

    async def _check(member: Member, twin: str) -> Checked:
        known = [Finding("duplicate", f"the same bug in the same code as {twin}")] if twin else []
        try:
            tree = _tree(member)
        except TaskError as error:
            return Checked(member.task.id, (*known, Finding("fault", str(error))))
        return await _Case(member, tree, grade, sandboxes, plan, untold).check([*known, *_kept_for_evaluation(member)])

    checked = await asyncio.gather(*(one(member, twin) for member, twin in zip(members, twins, strict=True)))
    if plan.kept:
        plan.kept.unlink(missing_ok=True)
    return Report(tuple(checked), plan.runs, noticed(plan.runs))


def _checked(row: Mapping[str, Any]) -> Checked:
    return Checked(**{**row, "findings": tuple(Finding(**finding) for finding in row["findings"])})


def _kept_for_evaluation(member: Member) -> list[Finding]:
    names = [name for name in (member.task.tags.get("package", ""), member.task.id) if is_evaluation(name)]
    if not names or member.task.tags.get("split") == "evaluation":
        return []
    return [Finding("evaluation", f"{names[0]} is of SWE-bench's repositories")]


def _tree(member: Member) -> dict[str, bytes] | None:
    return first_state(member.task.repository) if member.task.repository.kind == "archive" else None


def _twin(first: dict[str, str], member: Member) -> str:
    """The id of an earlier task with the same bug; remembers this one where there is none."""
    try:
        tree = _tree(member) or {}
    except TaskError:  # which checking tells, of this task alone
        tree = {}
    known = first.setdefault(fingerprint(member, tree), member.task.id)
    return "" if known == member.task.id else known


class _Case:
    """One task on the way through."""

    def __init__(
        self,
        member: Member,
        tree: Mapping[str, bytes] | None,
        grade: Grade,
        sandboxes: Sandboxes,
        plan: LintOptions,
        untold: Untold | None,
    ) -> None:
        self._member, self._tree, self._grade, self._sandboxes, self._plan = member, tree, grade, sandboxes, plan
        self._found: list[Finding] = []
        self._runs = self._deviations = 0
        self._untold = untold

    async def check(self, known: Sequence[Finding]) -> Checked:
        """Everything that is found."""
        self._found += known
        quiet = 0
        try:
            self._read()
            await self._look()
            if await self._holds(0):
                await self._probe()
                await self._repeat()
                quiet = await self._untold(self._member.task) if self._untold else 0
        except (SandboxFault, SandboxLost, TaskError, OSError, ValueError) as error:
            self._found.append(Finding("fault", str(error)))
        bound = wilson(self._deviations, 2 * self._runs)[1]
        return Checked(self._member.task.id, tuple(self._found), self._runs, self._deviations, bound, quiet)

    def _read(self) -> None:
        member = self._member
        if self._tree is not None:
            self._found += [Finding("leak", words) for words in readable(member, self._tree, touched(member.repair))]
        if self._plan.paper:
            self._found += [*complexity(member), *quality(member), *references(member, member.output)]

    async def _look(self) -> None:
        if self._tree is not None:
            async with await self._sandboxes.open(self._member.task) as sandbox:
                found = await look(sandbox, self._member, self._tree, touched(self._member.repair))
            self._found += [Finding("leak", words) for words in found]

    async def _holds(self, number: int) -> bool:
        """Does the solution win, and the unrepaired repository not?"""
        gold, null = await self._judge(self._member.repair, number), await self._judge("", number)
        self._runs += 1
        if not gold.resolved:
            self._found.append(Finding("wrong", f"the solution does not pass: {_why(gold)}"))
        if null.resolved or all(test.satisfied for test in null.tests if test.expected == "fail_to_pass"):
            self._found.append(Finding("wrong", "the tests that should fail without the solution pass"))
        broken = [test.id for test in null.tests if test.expected == "pass_to_pass" and not test.satisfied]
        if broken:
            self._found.append(Finding("wrong", f"tests that should pass without the solution do not: {_some(broken)}"))
        self._first = {"the solution": gold, "no repair": null}
        return not any(finding.kind == "wrong" for finding in self._found)

    async def _probe(self) -> None:
        if not self._plan.probes or self._tree is None:
            return
        member, tree = self._member, self._tree
        for words, changed in probes(member.repair, tree, member.levels.get("report", "")).items():
            patch = "".join(unified(path, tree[path].decode(), text) for path, text in changed.items())
            if (await self._judge(patch, 0)).resolved:
                self._found.append(Finding("weak", f"{words} wins"))

    async def _repeat(self) -> None:
        """Again under other conditions: every expected test must end as it did the first time."""
        differing: dict[tuple[str, str], int] = {}
        for number in range(1, self._plan.runs):
            for words, patch in (("the solution", self._member.repair), ("no repair", "")):
                verdict = await self._judge(patch, number)
                self._deviations += verdict.resolved != self._first[words].resolved
                before = {test.id: test.satisfied for test in self._first[words].tests}
                for ended in verdict.tests:
                    if ended.satisfied != before[ended.id]:
                        differing[(words, ended.id)] = differing.get((words, ended.id), 0) + 1
            self._runs += 1
        for (words, test), count in differing.items():
            low, high = wilson(count, self._plan.runs)
            evidence = f"with {words}, {test} ended otherwise in {count} of {self._plan.runs} runs (95 %: {low:.0%} to {high:.0%})"
            self._found.append(Finding("flaky", evidence))

    async def _judge(self, patch: str, number: int) -> Verdict:
        verdict = await self._grade(self._member.task, patch, number)
        if verdict.fault is not None:
            verdict = await self._grade(self._member.task, patch, number)
        if verdict.fault is not None:
            raise SandboxFault(verdict.fault)
        return verdict


def _why(verdict: Verdict) -> str:
    if "ran" not in verdict.stages:
        return "the patch does not fit" if "applied" not in verdict.stages else "the tests did not come to their end"
    if verdict.tamper:
        return f"it {verdict.tamper[0]}"
    return _some([f"{test.id} {test.status}" for test in verdict.tests if not test.satisfied])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
