"""What linting finds: a kind, the task, and the evidence in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["wrong", "flaky", "weak", "leak", "duplicate", "evaluation", "guess", "complex", "poor", "fault"]

MEANINGS: dict[Kind, str] = {
    "wrong": "the solution does not pass, or the unrepaired repository does",
    "flaky": "the same patch got different outcomes",
    "weak": "a patch that repairs nothing wins",
    "leak": "the answer can be read: in the statement, the tree, the packages or the history",
    "duplicate": "another task of the set has the same bug in the same code",
    "evaluation": "it is from a repository that is kept for evaluation, and not marked as such",
    "guess": "its tests fail for names that only the solution brings, which an agent would have to guess",
    "complex": "its solution changes more than seven files, or 500 lines or more",
    "poor": "its score by a language model says that it is unclear, too complex or badly tested",
    "fault": "it could not be run",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a task."""

    kind: Kind
    evidence: str


@dataclass(frozen=True, slots=True)
class Checked:
    """All that was found about a task. `runs` are gradings of each patch, `deviations` those of the expected tests that differed.

    `bound` is the upper end of the 95 % interval for the share of runs in which the task's verdict is another one. `untold` expected tests
    pass with their expectations broken: a patch that talks them into passing is noticed by other tests alone.
    """

    task: str
    findings: tuple[Finding, ...] = ()
    runs: int = 0
    deviations: int = 0
    bound: float = 1.0
    untold: int = 0

    @property
    def sound(self) -> bool:
        """Was nothing found?"""
        return not self.findings
