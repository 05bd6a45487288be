"""What people are told: an evaluation, and one fact about a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error, and the interval that holds the truth with 95 %, all as shares (0.39, 0.02, 0.35, 0.43)."""

    mean: float
    error: float
    low: float = math.nan
    high: float = math.nan


UNKNOWN = Estimate(math.nan, math.nan)
Outcomes = Mapping[str, tuple[bool | None, ...]]


@dataclass(frozen=True, slots=True)
class Report:
    """An evaluation: one policy on one task set, `attempts` a task, with the budget beside the numbers.

    Attempt number n at every task is run n, so `outcomes["a"] == (True, None, False)` says that a was solved in the first of three runs and
    that infrastructure broke the second. `pass_at_1` has its error over tasks, `over_runs` is the same figure with its error over runs;
    `worst` and `best` are what it would be if all that broke had failed, or been solved. `best_at_n` is the share solved where of each
    task's attempts one is chosen, as `about` says. `turns`, `action_tokens` and `context_tokens` are means over attempts, the last of
    the longest context of each; `seconds` is the wall time of all; `failures` counts turns by how they failed (`credit.kinds`),
    and `instead` those whose answer held something else than text, by what that was (`Action.instead`). Where tasks are of several kinds,
    `parts` is Pass@1 of each.

    What has a default came later: reports of older runs lack it.
    """

    name: str
    tasks: int
    attempts: int
    pass_at_1: Estimate
    pass_at_k: Estimate
    submitted: Estimate
    turns: float
    action_tokens: float
    seconds: float
    budget: Mapping[str, float]
    solved: Mapping[str, int]
    stops: Mapping[str, int]
    faults: int = 0
    outcomes: Outcomes = field(default_factory=dict)
    over_runs: Estimate = UNKNOWN
    worst: float = math.nan
    best: float = math.nan
    best_at_n: Estimate = UNKNOWN
    context_tokens: float = math.nan
    failures: Mapping[str, int] = field(default_factory=dict)
    sampling: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """A part of a run of so many steps begins."""

    name: str
    total: int


@dataclass(frozen=True, slots=True)
class Advanced:
    """So many steps of the phase are done. A bool among the `facts` is counted and shown as a share, anything else as its latest value."""

    steps: int = 1
    facts: Mapping[str, bool | float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Note:
    """One line for a person: what the agent just did, or, where it `stays`, what a run decided or a guard saw."""

    text: str
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """The record of one iteration, as `metrics.jsonl` has it."""

    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The table so far: one report a policy, in the order of training."""

    reports: tuple[Report, ...]


Event = PhaseBegan | Advanced | Note | Measured | Evaluated
"""One fact about a run, for people and trackers."""
