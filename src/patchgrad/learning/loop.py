"""The loop: draw, roll out, grade, credit, pack, update, publish.

    play    (tasks)  -> groups     every attempt in its own sandbox, graded in another; consumes tasks, waits for policy and sandboxes
    learn   (groups) -> updates    select x advantage x objective x aggregation: an algorithm is a row
    iterate                        both, then publishes the weights to the policy and the outcomes to the curriculum

With `lag = 0`, the only mode here, sampling waits for the update and the update for all verdicts: the paper's synchronous loop
(arXiv 2508.03501, section 4.3). Evaluation is `play` without `learn`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgrad.contracts import (
    Curriculum,
    TrainablePolicy,
    Trainer,
)
from patchgrad.learning.algorithm import Algorithm, Plan
from patchgrad.learning.branching import branched
from patchgrad.learning.credit import by_group, corrected
from patchgrad.learning.failures import kept
from patchgrad.learning.meter import Meter
from patchgrad.learning.packing import minibatches, pack, scored
from patchgrad.learning.provenance import Terms, certify, certify_batch, certify_samples
from patchgrad.rollouts.attempts import play
from patchgrad.rollouts.world import World
from patchgrad.values import Group, Rollout, Sample, Update


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
