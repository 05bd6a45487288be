"""What an attempt was found to be, and what that is worth."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from patchgrad.values.arrays import digest
from patchgrad.values.tasks import Task
from patchgrad.values.turns import Stop, Trajectory, Turn

Status = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "missing"]


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """One expected test: which list it is from and how it ended after the submission."""

    __test__ = False  # not a test class, whatever pytest thinks of the name
    id: str
    expected: Literal["fail_to_pass", "pass_to_pass"]
    status: Status
    strict: bool = False

    @property
    def satisfied(self) -> bool:
        """A strict one has to pass. Otherwise SWE-bench's rule in its version-5 form: expected failures hold, and skipped pass-to-pass."""
        if self.strict:
            return self.status == "passed"
        good = ("passed", "xfailed") if self.expected == "fail_to_pass" else ("passed", "xfailed", "skipped")
        return self.status in good


@dataclass(frozen=True, slots=True)
class Verdict:
    """What grading found: stored, never changed. `stages` are those reached, of applied / collected / ran.

    `tamper` names what the submission did to tests or their configuration; `fault` an infrastructure failure, which is no
    judgement of the submission.
    """

    task: str
    patch: str
    stages: tuple[str, ...]
    tests: tuple[TestOutcome, ...]
    tamper: tuple[str, ...] = ()
    fault: str | None = None
    seconds: float = 0.0

    @property
    def resolved(self) -> bool:
        """Every expected test is satisfied, and none of it was won by tampering."""
        return "ran" in self.stages and not self.tamper and bool(self.tests) and all(t.satisfied for t in self.tests)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judge other than the hidden tests found of an attempt: a score, named parts of it, and what it took in seconds.

    `Judgement("patch-size", 12.0, {"added": 9.0, "removed": 3.0})`.
    """

    judge: str
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended and was judged: the last link of its chain, `parent` its last turn, or its root where it has none.

    `begun` are the turns, counted from 0, at which its token streams after the first one began: `(3,)` of streams of three turns and two.
    So many questions were answered `asides` from its turns. The address leaves both out: what a sampled action says of its own origin is
    proof, and other actions are not trained.
    """

    parent: str
    stop: Stop
    submission: str
    verdict: Verdict
    seconds: float = 0.0
    judgements: tuple[Judgement, ...] = ()
    begun: tuple[int, ...] = ()
    asides: int = 0

    @property
    def address(self) -> str:
        judged = [asdict(self.verdict), *(asdict(judgement) for judgement in self.judgements)]
        for item in judged:
            item.pop("seconds")
        return digest("ending", self.parent, self.stop, self.submission, *(json.dumps(item, sort_keys=True) for item in judged))


@dataclass(frozen=True, slots=True)
class Reward:
    """A number and the named parts that add up to it; a pure function of task, trajectory, verdict and judgements."""

    value: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt at a task with what it was judged and what that is worth."""

    task: Task
    trajectory: Trajectory
    verdict: Verdict
    reward: Reward
    judgements: tuple[Judgement, ...] = ()

    @property
    def solved(self) -> bool:
        """Submitted, and every hidden test holds; a right diff that was never submitted solves nothing."""
        return self.trajectory.stop == "submitted" and self.verdict.resolved

    @property
    def handed_in(self) -> str:
        """The patch that counts as its answer: none where the attempt ended in another way than by submitting."""
        return self.trajectory.submission if self.trajectory.stop == "submitted" else ""

    @property
    def broken(self) -> bool:
        """Did infrastructure break this attempt, so that it says nothing about the policy? It is no zero."""
        return self.verdict.fault is not None or self.trajectory.stop == "failed"


@dataclass(frozen=True, slots=True)
class Group:
    """All attempts at one task under one policy version, forks included."""

    rollouts: tuple[Rollout, ...]

    @property
    def task(self) -> Task:
        return self.rollouts[0].task

    @property
    def solve_rate(self) -> float:
        return sum(r.solved for r in self.rollouts) / len(self.rollouts)

    @property
    def whole(self) -> tuple[Rollout, ...]:
        """The attempts that say how hard the task is: they began at its beginning, and infrastructure did not break them."""
        return tuple(r for r in self.rollouts if not r.broken and not r.trajectory.replayed)


def chain(links: Iterable[Turn | Ending], root: str) -> tuple[tuple[Turn, ...], Ending | None]:
    """The turns of an attempt that follow its root, as far as they go, and its ending where it has one.

    Where an attempt went on twice from one turn, since a sandbox broke or a process was killed, the later link is the one that counts.
    """
    after = {link.parent: link for link in links}
    turns: list[Turn] = []
    last = after.get(root)
    while isinstance(last, Turn):
        turns.append(last)
        last = after.get(last.address)
    return tuple(turns), last
