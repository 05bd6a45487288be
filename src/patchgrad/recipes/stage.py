"""One stage of reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

from patchgrad.config import require, within
from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.limits import AttemptLimits
from patchgrad.recipes.loss import LossChoice
from patchgrad.recipes.rows import NORMALISED, ROWS, Name, Row, possible


@dataclass(frozen=True, slots=True)
class Start:
    """Which tasks a stage draws from, and where attempts at them begin.

    With `refresh_before` tasks that are mostly solved, or never, are left out, PAPER section 6.6. Of those that are left a `pool` of so
    many is drawn from, or all with 0. Attempts begin `at` their task's beginning, or after turns of an earlier one where the task is too
    hard or too easy (`curricula.Prefixes`).
    """

    refresh_before: bool = False
    pool: int = 0
    at: Literal["beginning", "prefixes"] = "beginning"

    def __post_init__(self) -> None:
        require(self.pool >= 0, f"start.pool is {self.pool}; it counts tasks, and 0 is all")


@dataclass(frozen=True, slots=True)
class StageSampling:
    """How many attempts an iteration makes, and how their actions are drawn.

    With `forks`, that many turns of a group are gone on before `continuations` times more (`branching`), which the baseline `turns` makes
    turn values of (`advantages.Branched`). Actions are drawn from the whole distribution; a `top_p` below 1 cuts it, which is what the
    paper warns of, and is here to be studied.

    With a `lag` sampling does not wait for training: attempts of so many later iterations are made meanwhile, and go on under newer weights
    (`learning/ahead.py`).
    """

    tasks: int = 16
    attempts: int = 10
    forks: int = 0
    continuations: int = 3
    top_p: float = 1.0
    lag: int = 0

    def __post_init__(self) -> None:
        within(1, inf, "sampling.", self, "tasks")
        within(0, inf, "sampling.", self, "lag")
        require(self.attempts >= 2, f"sampling.attempts is {self.attempts}; a group needs at least 2 attempts to have an advantage")
        require(self.forks >= 0 and self.continuations >= 1, "sampling.forks must be at least 0, sampling.continuations at least 1")
        require(0 < self.top_p <= 1, f"sampling.top_p is {self.top_p}; it must be above 0, and at most 1, which cuts nothing")


@dataclass(frozen=True, slots=True)
class Replay:
    """Which groups of a stage's earlier iterations are trained again beside an iteration's own (`learning/replay.py`).

    At most so many `groups`, none of more than `age` iterations ago, none more than `uses` times; with 0 none at all. What is half solved,
    new and not used yet comes first: by so much as `alpha` says, with 0 by chance alone. What comes more often for it counts less: by so
    much as `beta` says, which rises to 1 at the stage's last iteration. A group of whose tokens less than a share of `ess` is effective
    under the policy as it is now is left out.
    """

    groups: int = 0
    age: int = 4
    uses: int = 2
    alpha: float = 0.6
    beta: float = 0.4
    ess: float = 0.5

    def __post_init__(self) -> None:
        within(0, inf, "replay.", self, "groups")
        within(1, inf, "replay.", self, "age", "uses")
        within(0, 1, "replay.", self, "alpha", "beta", "ess")


@dataclass(frozen=True, slots=True)
class LengthPenalty:
    """What turns beyond `length_threshold` cost: from 0 there to `length_weight` at the turn limit, PAPER section 6.2, where it is 1.

    At 1 an attempt at the turn limit costs 1 more than giving up. An attempt that ends otherwise than by its submission costs
    `unsubmitted`: where that is 0, to go on in vain costs no more than a wrong submission. With 0 for both the recipe's reward is all.
    """

    length_threshold: int = 0
    length_weight: float = 0.0
    unsubmitted: float = 0.0

    def __post_init__(self) -> None:
        within(0, inf, "reward.", self, "length_threshold", "length_weight", "unsubmitted")


@dataclass(frozen=True, slots=True)
class Health:
    """Bounds on an iteration's attempts: where `patience` iterations in a row break one, the stage ends.

    `submitted` is the least share of the attempts, `looping` and `unreadable` are the largest of the turns, which made a call again in the
    state in which it had been made, or were no call. 0, 1 and 1 end no stage.
    """

    submitted: float = 0.0
    looping: float = 1.0
    unreadable: float = 1.0
    patience: int = 2

    def __post_init__(self) -> None:
        within(0, 1, "health.", self, "submitted", "looping", "unreadable")
        within(1, inf, "health.", self, "patience")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of RL, PAPER sections 6.1 to 6.6: a row of the table of algorithms, and what it is run with.

    `algorithm` alone is the published setting (`recipes/rows.py`); what `advantage` and `loss` set of their own holds in its place.

    A stage ends after `iterations`, or before, when Pass@1 on the tasks that were drawn has not risen over the last `plateau` of them
    (`curricula/plateau.py`); 0 never asks. It also ends when its attempts lose their `health`. The learning
    rate rises in a line to `lr` over the first `warmup` iterations, as AdamW begins a stage without moments and its first steps are long;
    and it falls in a line, by a share of `decay` over the stage.
    """

    algorithm: Name = "dapo"
    iterations: int = 6
    plateau: int = 0
    health: Health = field(default_factory=Health)
    lr: float = 1e-6
    warmup: int = 0
    decay: float = 0.0
    start: Start = field(default_factory=Start)
    sampling: StageSampling = field(default_factory=StageSampling)
    replay: Replay = field(default_factory=Replay)
    limits: AttemptLimits = field(default=AttemptLimits(turns=8, context=1024))
    reward: LengthPenalty = field(default_factory=LengthPenalty)
    advantage: AdvantageChoice = field(default_factory=AdvantageChoice)
    loss: LossChoice = field(default_factory=LossChoice)

    @property
    def row(self) -> Row:
        """The algorithm, with what this stage sets of its own: everything that `runs/algorithms.py` needs to know of it."""
        own, advantage, loss = ROWS[self.algorithm], self.advantage, self.loss
        given: dict[str, Any] = {
            "estimator": advantage.estimator,
            "filter_on": advantage.filter_on,
            "baseline": advantage.baseline,
            "baseline_offset": advantage.baseline_offset,
            "step_weight": advantage.step_weight,
            "confident_above": advantage.confident_above,
            "penalty": advantage.penalty,
            "objective": loss.objective,
            "clip_low": loss.clip_low,
            "clip_high": loss.clip_high,
            "aggregate": loss.aggregate,
            "old": loss.old,
        }
        return replace(
            own, failures=advantage.failures.onto(own.failures), **{name: value for name, value in given.items() if value is not None}
        )

    @property
    def corrected(self) -> bool:
        """Is it accounted for where sampler and trainer compute other probabilities?"""
        return self.row.old == "recomputed" and not self.loss.correction.none

    def rate(self, iteration: int) -> float:
        """The learning rate of an iteration, which counts from 0.

        With `lr=1.0, iterations=4, warmup=2, decay=1.0` it is .5, .75, .5 and .25.
        """
        risen = min(1.0, (iteration + 1) / max(1, self.warmup))
        return self.lr * risen * (1 - self.decay * iteration / self.iterations)

    def __post_init__(self) -> None:
        within(1, inf, "a stage's ", self, "iterations")
        within(0, inf, "a stage's ", self, "warmup")
        require(self.lr > 0, f"a stage's lr is {self.lr}; a learning rate must be above 0")
        require(0 <= self.decay <= 1, f"a stage's decay is {self.decay}; it is the share, from 0 to 1, by which its lr falls")
        require(self.plateau >= 0, f"a stage's plateau is {self.plateau}; it counts iterations, and 0 never ends a stage early")
        row, limits, reward, forks = self.row, self.limits, self.reward, self.sampling.forks
        possible(self.algorithm, row)
        require(
            row.old == "recomputed" or self.loss.correction.none,
            "the correction is of recomputed / sampled log-probabilities: set loss.old to 'recomputed', or the correction's bounds to none",
        )
        counts = (("sampling.lag", self.sampling.lag), ("replay.groups", self.replay.groups))
        earlier = " and ".join(f"{name} is {value}" for name, value in counts if value)
        require(
            not earlier or self.corrected or (row.old == "sampled" and row.objective.name != "reinforce"),
            f"{earlier}, so earlier weights have sampled what is trained: take an objective with a ratio to what was sampled, "
            "or set loss.old to 'recomputed' and a bound of loss.correction",
        )
        require(
            not earlier or (not forks and self.start.at == "beginning"),
            f"{earlier}, and forks and prefixes begin in attempts that have ended: set forks to 0, and start.at to 'beginning'",
        )
        require(
            self.algorithm != "maxrl" or reward.length_weight == reward.unsubmitted == 0,
            "maxrl divides by a mean of rewards of 0 and 1, and length_weight and unsubmitted make them less: set both to 0",
        )
        require(
            limits.turns > reward.length_threshold,
            f"turns {limits.turns} must be above length_threshold {reward.length_threshold}, or the length penalty divides by zero",
        )
        require(
            (forks > 0) == (row.baseline == "turns"),
            f"forks is {forks} and baseline is {row.baseline}; turn values are measured by forks, and forks are for nothing else",
        )
        require(
            not forks or row.estimator == NORMALISED,
            f"{self.algorithm} has an estimator of its own, which does not know forks: set forks to 0 and another baseline",
        )
