"""A row of the table of algorithms, and the sizes of one iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from patchgrad.contracts import (
    Aggregate,
    Correction,
    Estimator,
    Objective,
    Rescale,
    Score,
    Select,
)
from patchgrad.learning.aggregation import token_mean
from patchgrad.learning.branching import Forking
from patchgrad.learning.credit import as_they_are
from patchgrad.learning.failures import PENALTY, FailurePolicy
from patchgrad.learning.replay import Recalled
from patchgrad.rollouts.attempts import from_the_beginning
from patchgrad.values import Start, Task


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A row of the table of algorithms.

    With `whole_groups` a minibatch never holds a part of a group: advantages that add up to zero in a group then do so in every step.
    Where `old` is `recomputed`, ratios are taken to the trainer's own log-probabilities from before the first step, and `correction` may
    answer for their difference to the sampler's. `reference` scores for a penalty that pulls to another model (`objectives/kl_penalty.py`).
    """

    select: Select
    estimator: Estimator
    objective: Objective
    failures: FailurePolicy
    whole_groups: bool = False
    rescale: Rescale = as_they_are
    confident_above: float = 1.0
    penalty: float = PENALTY
    aggregate: Aggregate = token_mean
    old: Literal["sampled", "recomputed"] = "sampled"
    correction: Correction | None = None
    reference: Score | None = None


@dataclass(frozen=True, slots=True)
class IterationSizes:
    """How large one iteration is, and how its optimiser steps.

    `minibatch` is the least number of trajectories in an optimiser step, `micro_batch_tokens` the tokens of a forward pass, shared by
    `workers`. `schedule` gives the learning rate by step, once it is told how many steps come. Products are in `precision`, or in the
    trainer's own. Attempts at a task begin where `start` says, and with `forking` some go on again after turns of theirs. With a `lag`
    attempts of so many later iterations are under way at once (`ahead`). A share of `spot` of the attempts is read again by the trainer
    (`spot`). Of the groups of earlier iterations that are `recalled` those are trained again whose tokens have an effective share of at
    least `least_ess` (`replay`, `recall`).
    """

    tasks: int
    attempts: int
    minibatch: int
    micro_batch_tokens: int
    schedule: Callable[[int], Callable[[int], float]]
    workers: int = 1
    epochs: int = 1
    precision: Literal["float32", "bfloat16"] | None = None
    start: Callable[[Task], Start] = from_the_beginning
    forking: Forking | None = None
    lag: int = 0
    spot: float = 0.0
    recalled: Sequence[Recalled] = ()
    least_ess: float = 0.0
