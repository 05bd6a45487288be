"""Which of several attempts to hand in, told by the tests that the agent could see; the hidden ones take no part.

    the repository as the agent got it -> its whole suite, once -> the visible tests
    each submission, tests put back    -> how many of them hold -> among those with the most, the patch that most attempts agree on

That is the choice of Agentless (arXiv 2407.01489, section 3.3: regression tests, then a majority of equal patches).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from patchgrad.contracts import Sandboxes
from patchgrad.errors import SandboxFault, SandboxLost
from patchgrad.grading.grade import run_tests
from patchgrad.grading.grader import Grader
from patchgrad.values import Checks, Task, Trajectory

PATIENCE = 4.0  # a whole suite takes longer than the tests that decide; beyond so many times their limit it is not waited for
NOTHING = -1.0  # the score of an attempt that handed in nothing: keeping every test green is then no merit


class VisibleTests:
    """A scorer (`contracts.Scorer`): visible tests that hold, and as a fraction below one how many attempts made the same patch.

    `await VisibleTests(sandboxes)(task, trajectories)` -> `[41.4, 41.4, 40.2, -1.0]` for four attempts, of which two made one patch. It
    abstains, `None`, where the repository shows no test that can be run: tests of another runner than pytest, none at all, a suite that
    does not end in time, or a sandbox that broke. Nothing of `task.checks` but the protected paths is looked at.
    """

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes, self._grader = sandboxes, Grader(sandboxes)

    async def __call__(self, task: Task, trajectories: Sequence[Trajectory]) -> list[float] | None:
        try:
            tests = await visible_tests(task, self._sandboxes)
        except (SandboxFault, SandboxLost):
            return None
        if not tests:
            return None
        shown = as_shown(task, tests)
        patches = [_essence(one.submission) if one.stop == "submitted" else "" for one in trajectories]
        agreed, scores = Counter(patches), []
        for patch, one in zip(patches, trajectories, strict=True):
            if not patch:
                scores.append(NOTHING)
                continue
            verdict = await self._grader.grade(shown, one.submission)
            if verdict.fault is not None:
                return None
            scores.append(sum(test.satisfied for test in verdict.tests) + agreed[patch] / (len(patches) + 1))
        return scores


async def visible_tests(task: Task, sandboxes: Sandboxes) -> tuple[str, ...]:
    """The tests of the repository as the agent gets it, by id; none where they cannot be run, or not in time."""
    if task.checks.parser != "report":
        return ()
    run = await run_tests(as_shown(task), sandboxes)
    return tuple(sorted(run.statuses)) if run.complete else ()


def as_shown(task: Task, tests: tuple[str, ...] = ()) -> Task:
    """The task with the checks that anybody could write who sees the repository alone: its own tests, of which `tests` are to hold."""
    limits = replace(task.limits, test_seconds=PATIENCE * task.limits.test_seconds)
    return replace(task, checks=Checks((), tests, protected=task.checks.protected, command=("pytest",)), limits=limits)


def _essence(patch: str) -> str:
    """What a patch does, without the hashes and line numbers in which equal ones can differ."""
    return re.sub(r"^(?:index .*|@@ .*)\n", "", patch, flags=re.MULTILINE).strip()
