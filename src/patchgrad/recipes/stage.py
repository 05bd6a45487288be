"""One stage of reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Literal

from patchgrad.config import require, within
from patchgrad.recipes.failures import Failures, unread
from patchgrad.recipes.rows import ROWS, Aggregation, ImportanceCorrection, KlPenalty, Name, clip


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of RL, PAPER sections 6.1 to 6.6. An optimiser step takes whole groups, of at least `minibatch` trajectories together.

    It ends after `iterations`, or before, when Pass@1 on the tasks that were drawn has not risen over the last `plateau` of them
    (`curricula/plateau.py`); 0 never asks. Turns that failed, and attempts that ran into a limit, are kept as examples of what not to do,
    as in the paper, or treated otherwise (`failures`). Actions are drawn from the whole distribution; a `top_p` below 1 cuts it, which is
    what the paper warns of, and is here to be studied. Of the tasks that are left a `pool` of so many is drawn from, or all with 0. An
    attempt that takes `seconds` is stuck.

    `algorithm` is a row of the table (`recipes/rows.py`); its own `clip_low`, `clip_high` and `aggregate` hold where none is given here.
    Ratios are taken to the `old` log-probabilities: those `sampled`, or `recomputed` by the trainer before the first step of an iteration,
    so that the `correction` between the two can be corrected for. A `kl_penalty` of weight 0 is none.

    From the first iteration to the last `lr` falls in a line, by a share of `decay` over the stage (0 in the paper).
    Attempts begin at their task's beginning, or, where `starts` are `prefixes`, after turns of an earlier one where the task is too hard or
    too easy (`curricula.Prefixes`). With `forks`, that many turns of a group are gone on before `continuations` times more
    (`branching`), which the baseline `turns` makes turn values of (`advantages.Branched`).

    `length_weight` scales what turns beyond `length_threshold` cost; 1 is the paper's, at which an attempt at the turn limit costs 1 more
    than giving up.

    The rest is about advantages. `baseline` is the mean reward of the group, as in the paper, or of its tokens
    (`advantages.LengthWeighted`), or the value of the turns before, `baseline_offset` by so much (`advantages.GroupNormalised`; 0 in the
    paper); only rows whose advantages are `normalised` take these two. `step_weight` adds to it what each turn did better than the others
    that began in its state (`advantages.Anchored`, with `discount`; 0 in the paper). Tokens that the policy was `confident_above` of are
    not blamed (`credit.assign`; 1, all are, in the paper).
    """

    iterations: int = 6
    plateau: int = 0
    pool: int = 0
    tasks: int = 16
    attempts: int = 10
    minibatch: int = 20
    lr: float = 5e-4
    decay: float = 1.0
    algorithm: Name = "dapo"
    clip_low: float | None = None
    clip_high: float | None = None
    aggregate: Aggregation | None = None
    old: Literal["sampled", "recomputed"] = "sampled"
    correction: ImportanceCorrection = field(default_factory=ImportanceCorrection)
    kl_penalty: KlPenalty = field(default_factory=KlPenalty)
    turns: int = 8
    context: int = 1024
    seconds: float = 600.0
    length_threshold: int = 6
    length_weight: float = 0.1
    refresh_before: bool = False
    filter_on: Literal["outcome", "reward"] = "outcome"
    starts: Literal["beginning", "prefixes"] = "beginning"
    forks: int = 0
    continuations: int = 3
    baseline: Literal["group", "tokens", "turns"] = "tokens"
    baseline_offset: float = 0.1
    step_weight: float = 3.0
    discount: float = 0.9
    confident_above: float = 0.9
    failures: Failures = field(default_factory=partial(replace, unread("withhold"), looping="withhold"))
    top_p: float = 1.0

    def __post_init__(self) -> None:
        within(1, inf, "a stage's ", self, "iterations", "tasks", "minibatch", "context", "seconds")
        within(0, inf, "a stage's ", self, "length_threshold", "length_weight", "step_weight")
        within(0, 1, "a stage's ", self, "discount")
        require(self.lr > 0, f"a stage's lr is {self.lr}; a learning rate must be above 0")
        require(0 <= self.decay <= 1, f"a stage's decay is {self.decay}; it is the share, from 0 to 1, by which its lr falls")
        require(self.pool >= 0, f"a stage's pool is {self.pool}; it counts tasks, and 0 is all")
        require(self.plateau >= 0, f"a stage's plateau is {self.plateau}; it counts iterations, and 0 never ends a stage early")
        require(0 < self.top_p <= 1, f"a stage's top_p is {self.top_p}; it must be above 0, and at most 1, which cuts nothing")
        require(self.attempts >= 2, f"attempts is {self.attempts}; a group needs at least 2 attempts to have an advantage")
        clip(self.algorithm, self.clip_low, self.clip_high)
        require(
            self.old == "recomputed" or self.correction.none,
            "the correction is of recomputed / sampled log-probabilities: set old to 'recomputed', or the correction's bounds to none",
        )
        require(
            self.algorithm != "maxrl" or self.length_weight == 0,
            f"maxrl divides by a mean of rewards that are 0 or 1, and a length_weight of {self.length_weight} makes them less: set it to 0",
        )
        require(
            0 < self.confident_above <= 1,
            f"confident_above is {self.confident_above}; it is a probability above which no token is blamed, and 1 blames all",
        )
        require(
            self.turns > self.length_threshold,
            f"turns {self.turns} must be above length_threshold {self.length_threshold}, or the length kl_penalty divides by zero",
        )
        require(self.forks >= 0 and self.continuations >= 1, "a stage's forks must be at least 0, its continuations at least 1")
        require(
            (self.forks > 0) == (self.baseline == "turns"),
            f"forks is {self.forks} and baseline is {self.baseline}; turn values are measured by forks, and forks are for nothing else",
        )
        require(
            not self.forks or ROWS[self.algorithm].estimator == "normalised",
            f"{self.algorithm} has an estimator of its own, which does not know forks: set forks to 0 and another baseline",
        )
        require(self.baseline_offset >= 0, f"baseline_offset is {self.baseline_offset}; a baseline can only be lowered, by 0 or more")
