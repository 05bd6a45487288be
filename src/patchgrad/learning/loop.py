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
from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.branching import branched
from patchgrad.learning.credit import by_group, corrected
from patchgrad.learning.failures import kept
from patchgrad.learning.meter import Meter
from patchgrad.learning.packing import minibatches, pack, scored
from patchgrad.learning.provenance import Requirements, verify_batch, verify_rollouts, verify_samples
from patchgrad.rollouts.attempts import collect_groups
from patchgrad.rollouts.harness import Harness
from patchgrad.values import Group, Rollout, Sample, Update


def learn(groups: Sequence[Group], algorithm: Algorithm, trainer: Trainer, sizes: IterationSizes, seed: int) -> list[Update]:
    """Optimiser steps over the groups that `select` keeps, `sizes.epochs` passes in fresh orders.

    With a correction, metrics also tell what it `truncated` and `masked`; a minibatch of which it leaves nothing makes no step.
    """
    chosen_groups = algorithm.select(groups)
    units = by_group(chosen_groups, algorithm.estimator, algorithm.failures, algorithm.rescale, algorithm.confident_above)
    verify_samples([sample for unit in units for sample in unit], chosen_groups, lambda one: kept(one, algorithm.failures))
    units = _scored(units, algorithm, trainer, sizes)
    if not algorithm.whole_groups:
        units = [[sample] for unit in units for sample in unit]
    chosen = [samples for epoch in range(sizes.epochs) for samples in minibatches(units, sizes.minibatch, seed + epoch)]
    sizes.on_steps(len(chosen))
    updates: list[Update] = []
    for samples in chosen:
        left, shares = corrected(samples, algorithm.correction) if algorithm.correction else (samples, {})
        batch = pack(left, sizes.micro_batch_tokens, workers=sizes.workers, aggregate=algorithm.aggregate)
        verify_batch(batch, left)
        if batch.trained:
            update = trainer.update(batch, algorithm.objective)
            updates.append(Update(update.version, {**update.metrics, **shares}))
    return updates


def _scored(units: Sequence[Sequence[Sample]], algorithm: Algorithm, trainer: Trainer, sizes: IterationSizes) -> list[list[Sample]]:
    """The same samples with the log-probabilities that the algorithm takes from elsewhere than the sampler."""
    samples = [sample for unit in units for sample in unit]
    if algorithm.old == "recomputed":
        own = scored(samples, trainer.logprobs, sizes.micro_batch_tokens, sizes.workers)
        samples = [replace(sample, old=values) for sample, values in zip(samples, own, strict=True)]
    if algorithm.reference:
        other = scored(samples, algorithm.reference, sizes.micro_batch_tokens, sizes.workers)
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
    harness: Harness,
    policy: TrainablePolicy,
    curriculum: Curriculum,
    trainer: Trainer,
    algorithm: Algorithm,
    sizes: IterationSizes,
    label: str,
    seed: int,
    on_rollout: Callable[[Rollout], None] = lambda _: None,
) -> Iteration:
    """Draw, play, learn, then send the two signals upstream: weights to the policy, outcomes to the curriculum."""
    meter = Meter()
    tasks, budget, reward = curriculum.draw(sizes.tasks), sizes.budget, sizes.reward
    groups = await collect_groups(harness, policy, tasks, sizes.attempts, budget, reward, label, seed, on_rollout, sizes.start)
    if sizes.forking:
        groups = await branched(harness, policy, groups, sizes.forking, budget, reward, seed, on_rollout)
    meter.lap("play")
    verify_rollouts(groups, Requirements(harness.journalled, frozenset({policy.version}), policy.fingerprint, policy.stops))
    updates = await asyncio.to_thread(learn, groups, algorithm, trainer, sizes, seed)
    meter.lap("learn")
    for group in groups:
        curriculum.observe(group)
    if updates:
        policy.load(trainer.weights(), trainer.version)
    return Iteration(tuple(groups), tuple(updates), meter.usage(groups))
