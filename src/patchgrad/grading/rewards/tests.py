"""The paper's reward, section 6.2: the tests decide, and long attempts pay.

paper = Weighted((Resolved(), TurnPenalty(threshold=10, limit=40)))
paper(task, trajectory, verdict)       # Reward(0.667, {"resolved": 1.0, "length": -0.333}) for a success in 20 turns
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchgrad.contracts import RewardFunction
from patchgrad.errors import ConfigError
from patchgrad.values import Judgement, Reward, Task, Trajectory, Verdict


@dataclass(frozen=True, slots=True)
class Resolved:
    """1 when every expected test holds and nothing was tampered with, else 0 (Eq. 3's R).

    Only what was submitted counts: an attempt that ran into a limit is an example of not finishing (section 6.5). With
    `unsubmitted=True` the tests decide there too. A failed attempt gets 0 here and is dropped by credit.
    """

    unsubmitted: bool = False

    def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement] = ()) -> Reward:
        counts = trajectory.stop == "submitted" or (self.unsubmitted and trajectory.stop != "failed")
        value = float(counts and verdict.resolved)
        return Reward(value, {"resolved": value})


@dataclass(frozen=True, slots=True)
class TurnPenalty:
    """0 below `threshold` turns, then down in a line to -1 at `limit` (Eq. 4): (threshold - turns) / (limit - threshold).

    `TurnPenalty(10, 40)` gives -1/3 at 20 turns and -1 at 40.
    """

    threshold: int
    limit: int

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < self.limit:
            raise ConfigError(f"A turn penalty needs threshold {self.threshold} below limit {self.limit}.")

    def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement] = ()) -> Reward:
        turns = len(trajectory.turns)
        value = min(0.0, (self.threshold - turns) / (self.limit - self.threshold))
        return Reward(value, {"length": value})


@dataclass(frozen=True, slots=True)
class Unsubmitted:
    """-1 where an attempt ended otherwise than by its submission: at a limit, lost in format errors, or repeating itself; else 0."""

    def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement] = ()) -> Reward:
        value = 0.0 if trajectory.stop in ("submitted", "failed") else -1.0
        return Reward(value, {"unsubmitted": value})


@dataclass(frozen=True, slots=True)
class Weighted:
    """The sum of other rewards, each times its weight (1 where none is given); the parts keep their names.

    Two parts of one name are refused, because the parts must add up to the value.
    """

    terms: tuple[RewardFunction, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.weights and len(self.weights) != len(self.terms):
            raise ConfigError(f"{len(self.terms)} reward terms have {len(self.weights)} weights; give one for each, or none.")

    def __call__(self, task: Task, trajectory: Trajectory, verdict: Verdict, judgements: Sequence[Judgement] = ()) -> Reward:
        parts: dict[str, float] = {}
        for term, weight in zip(self.terms, self.weights or (1.0,) * len(self.terms), strict=True):
            for name, value in term(task, trajectory, verdict, judgements).parts.items():
                if name in parts:
                    raise ConfigError(f"Two reward terms have a part named {name!r}; use one of them.")
                parts[name] = weight * value
        return Reward(sum(parts.values()), parts)
