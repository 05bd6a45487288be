"""The loop: draw, roll out, grade, credit, pack, update, publish.

    play    (tasks)  -> groups     every attempt in its own sandbox, graded in another; consumes tasks, waits for policy and sandboxes
    learn   (groups) -> updates    select x advantage x objective x aggregation: an algorithm is a row
    iterate                        both, then publishes the weights to the policy and the outcomes to the curriculum

With `lag = 0`, the only mode here, sampling waits for the update and the update for all verdicts: the paper's synchronous loop
(arXiv 2508.03501, section 4.3). Evaluation is `play` without `learn`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from patchgrad.branching import Forking, branched
from patchgrad.certificates import Terms, certify, certify_batch, certify_samples
from patchgrad.contracts import (
    Aggregate,
    Correction,
    Curriculum,
    Estimator,
    Objective,
    Rescale,
    RewardFunction,
    Score,
    Select,
    TrainablePolicy,
    Trainer,
)
from patchgrad.credit import FailurePolicy, as_they_are, by_group, corrected, kept
from patchgrad.packing import minibatches, pack, scored, token_mean
from patchgrad.playing import World, from_the_beginning, play
from patchgrad.rollout import Budget
from patchgrad.values import Group, Rollout, Sample, Start, Task, Update


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A row of the table of algorithms.

    With `whole_groups` a minibatch never holds a part of a group: advantages that add up to zero in a group then do so in every step.
    Where `old` is `recomputed`, ratios are taken to the trainer's own log-probabilities from before the first step, and `correction` may
    answer for their difference to the sampler's. `reference` scores for a penalty that pulls to another model (`objectives/penalty.py`).
    """

    select: Select
    estimator: Estimator
    objective: Objective
    failures: FailurePolicy
    whole_groups: bool = False
    rescale: Rescale = as_they_are
    certain: float = 1.0
    aggregate: Aggregate = token_mean
    old: Literal["sampled", "recomputed"] = "sampled"
    correction: Correction | None = None
    reference: Score | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of one iteration.

    `minibatch` is the least number of trajectories in an optimiser step, `pack` the tokens of a forward pass, shared by `workers`.
    `on_steps` is told how many optimiser steps come, before the first: a schedule may need to know. Attempts at a task begin where `start`
    says, and with `forking` some go on again after turns of theirs.
    """

    tasks: int
    attempts: int
    budget: Budget
    reward: RewardFunction
    minibatch: int
    pack: int
    workers: int = 1
    epochs: int = 1
    on_steps: Callable[[int], None] = lambda _: None
    start: Callable[[Task], Start] = from_the_beginning
    forking: Forking | None = None


def learn(groups: Sequence[Group], algorithm: Algorithm, trainer: Trainer, plan: Plan, seed: int) -> list[Update]:
    """Optimiser steps over the groups that `select` keeps, `plan.epochs` passes in fresh orders.

    With a correction, metrics also tell what it `truncated` and `masked`; a minibatch of which it leaves nothing makes no step.
    """
    chosen_groups = algorithm.select(groups)
    units = by_group(chosen_groups, algorithm.estimator, algorithm.failures, algorithm.rescale, algorithm.certain)
    certify_samples([sample for unit in units for sample in unit], chosen_groups, lambda one: kept(one, algorithm.failures))
    units = _scored(units, algorithm, trainer, plan)
    if not algorithm.whole_groups:
        units = [[sample] for unit in units for sample in unit]
    chosen = [samples for epoch in range(plan.epochs) for samples in minibatches(units, plan.minibatch, seed + epoch)]
    plan.on_steps(len(chosen))
    updates: list[Update] = []
    for samples in chosen:
        left, shares = corrected(samples, algorithm.correction) if algorithm.correction else (samples, {})
        batch = pack(left, plan.pack, workers=plan.workers, aggregate=algorithm.aggregate)
        certify_batch(batch, left)
        if batch.trained:
            update = trainer.update(batch, algorithm.objective)
            updates.append(Update(update.version, {**update.metrics, **shares}))
    return updates


def _scored(units: Sequence[Sequence[Sample]], algorithm: Algorithm, trainer: Trainer, plan: Plan) -> list[list[Sample]]:
    """The same samples with the log-probabilities that the algorithm takes from elsewhere than the sampler."""
    samples = [sample for unit in units for sample in unit]
    if algorithm.old == "recomputed":
        own = scored(samples, trainer.logprobs, plan.pack, plan.workers)
        samples = [replace(sample, old=values) for sample, values in zip(samples, own, strict=True)]
    if algorithm.reference:
        other = scored(samples, algorithm.reference, plan.pack, plan.workers)
        samples = [replace(sample, reference=values) for sample, values in zip(samples, other, strict=True)]
    rest = iter(samples)
    return [[next(rest) for _ in unit] for unit in units]


@dataclass(frozen=True, slots=True)
class Iteration:
    """One turn of the loop: what was rolled out, the updates it gave, and the seconds of `play` and `learn`."""

    groups: tuple[Group, ...]
    updates: tuple[Update, ...]
    usage: Mapping[str, float]


async def iterate(
    world: World,
    policy: TrainablePolicy,
    curriculum: Curriculum,
    trainer: Trainer,
    algorithm: Algorithm,
    plan: Plan,
    label: str,
    seed: int,
    on_rollout: Callable[[Rollout], None] = lambda _: None,
) -> Iteration:
    """Draw, play, learn, then send the two signals upstream: weights to the policy, outcomes to the curriculum."""
    meter = Meter()
    tasks, budget, reward = curriculum.draw(plan.tasks), plan.budget, plan.reward
    groups = await play(world, policy, tasks, plan.attempts, budget, reward, label, seed, on_rollout, plan.start)
    if plan.forking:
        groups = await branched(world, policy, groups, plan.forking, budget, reward, seed, on_rollout)
    meter.lap("play")
    certify(groups, Terms(world.journalled, frozenset({policy.version}), policy.spelling, policy.stops))
    updates = await asyncio.to_thread(learn, groups, algorithm, trainer, plan, seed)
    meter.lap("learn")
    for group in groups:
        curriculum.observe(group)
    if updates:
        policy.load(trainer.weights(), trainer.version)
    return Iteration(tuple(groups), tuple(updates), meter.usage(groups))


class Meter:
    """Core-seconds by phase, from the kernel's own counters.

    This process samples and trains; the sandboxes are everybody else's time, so another busy program on the machine counts as theirs.
    `tools` and `tests` share that time as their waiting times do. `wall` and `learning`, its part after the attempts, are on the clock.
    """

    def __init__(self) -> None:
        self._marks = [(time.monotonic(), time.process_time(), _busy())]
        self._laps: dict[str, tuple[float, float, float]] = {}

    def lap(self, name: str) -> None:
        """End a phase: its wall, own CPU and whole machine's busy seconds are kept under `name`."""
        now, last = (time.monotonic(), time.process_time(), _busy()), self._marks[-1]
        self._laps[name] = (now[0] - last[0], now[1] - last[1], now[2] - last[2])
        self._marks.append(now)

    def usage(self, groups: Sequence[Group]) -> dict[str, float]:
        cores = len(os.sched_getaffinity(0))
        play, learn_ = self._laps["play"], self._laps.get("learn", (0.0, 0.0, 0.0))
        tools = sum(turn.observation.seconds for g in groups for r in g.rollouts for turn in r.trajectory.turns)
        tests = sum(r.verdict.seconds for g in groups for r in g.rollouts)
        outside = max(0.0, play[2] - play[1])
        wall = play[0] + learn_[0]
        busy = min(play[2] + learn_[2], cores * wall)
        return {
            "sampling": play[1],
            "tools": outside * tools / (tools + tests or 1.0),
            "tests": outside * tests / (tools + tests or 1.0),
            "training": learn_[1],
            "idle": cores * wall - busy,
            "wall": wall,
            "learning": learn_[0],
            "cores_busy": busy / (cores * wall or 1.0),
        }


def _busy() -> float:
    """Seconds that all cores of this machine have worked since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
