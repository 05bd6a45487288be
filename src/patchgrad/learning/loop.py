"""The loop: draw, roll out, grade, credit, score, weigh, pack, update, publish.

    collect (tasks)  -> groups     every attempt in its own sandbox, graded in another; consumes tasks, waits for policy and sandboxes
    learn   (groups) -> updates    select x advantage x objective x aggregation: an algorithm is a row
    iterate                        both, then publishes the weights to the policies and the outcomes to the curriculum
    iterate_ahead                  the same, while attempts of later iterations are under way (`ahead`)

In `iterate` sampling waits for the update and the update for all verdicts: the paper's synchronous loop (arXiv 2508.03501, section 4.3).
Evaluation is `collect_groups` without `learn`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchgrad.contracts import Curriculum, TrainablePolicy, Trainer, WeightChannel
from patchgrad.learning.ahead import Ahead, Batch
from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.branching import branched
from patchgrad.learning.credit import by_group, weighted
from patchgrad.learning.failures import kept
from patchgrad.learning.meter import Meter
from patchgrad.learning.packing import minibatches, pack, scored
from patchgrad.learning.provenance import Requirements, verify_batch, verify_rollouts, verify_samples
from patchgrad.learning.recall import compared
from patchgrad.learning.replay import Recalled
from patchgrad.learning.spot import Spot, spotted
from patchgrad.learning.stopping import in_thread, may_stop
from patchgrad.learning.trained import numbered, trained_turns
from patchgrad.rollouts.attempts import AttemptSettings, collect_groups
from patchgrad.rollouts.harness import Harness
from patchgrad.values import Group, Sample, ScoredSample, StepSettings, TrainedTurn, Update, WeightedSample, floats
from patchgrad.waiting import waiting_for


@dataclass(frozen=True, slots=True)
class Learner:
    """Who learns: a policy, the trainer that owns its weights, the way from one to the other, and the choice of tasks."""

    policy: TrainablePolicy
    trainer: Trainer
    channel: WeightChannel
    curriculum: Curriculum


@dataclass(frozen=True, slots=True)
class Learned:
    """The optimiser steps of an iteration in their order, and what they made of each turn that they trained."""

    updates: tuple[Update, ...]
    turns: tuple[TrainedTurn, ...]


@dataclass(frozen=True, slots=True)
class Iteration:
    """One turn of the loop: what was rolled out and learned, the seconds of each part, and the versions that may have drawn it.

    `spot` is what the attempts tell that were read again before the first update, `recalled` are the groups of earlier iterations that were
    trained again, or were no longer near.
    """

    groups: tuple[Group, ...]
    learned: Learned
    usage: Mapping[str, float]
    versions: tuple[int, ...]
    spot: Spot | None = None
    recalled: tuple[Recalled, ...] = ()


async def iterate(
    harness: Harness, learner: Learner, algorithm: Algorithm, sizes: IterationSizes, settings: AttemptSettings, label: str
) -> Iteration:
    """Draw, collect, learn, then send the two signals upstream: weights to the policy, outcomes to the curriculum."""
    meter, policy = Meter(), learner.policy
    tasks = learner.curriculum.draw(sizes.tasks)
    groups = await collect_groups(harness, policy, tasks, sizes.attempts, settings, label, sizes.start)
    if sizes.forking:
        groups = await branched(harness, policy, groups, sizes.forking, settings)
    meter.lap()
    return await _learned(harness, learner, algorithm, sizes, settings.seed, (groups, [policy.version]), meter)


async def iterate_ahead(
    harness: Harness,
    learner: Learner,
    algorithm: Algorithm,
    sizes: IterationSizes,
    settings: AttemptSettings,
    labels: Sequence[str],
    ahead: Ahead,
) -> Iteration:
    """Learns from the attempts of the first of these iterations; those of the others are under way meanwhile, and go on after it.

    A new version reaches attempts between two of their turns, so each turn is of one.
    """
    meter, policy = Meter(), learner.policy

    def collect(batch: Batch) -> Coroutine[Any, Any, list[Group]]:
        own, quiet = replace(settings, since=batch.since), replace(harness, seen=batch.ended)
        return collect_groups(quiet, policy, batch.tasks, sizes.attempts, own, batch.label, sizes.start)

    ahead.begin(labels, lambda: learner.curriculum.draw(sizes.tasks), policy.version, collect)
    groups = await ahead.take(harness.seen)
    meter.lap()
    done = await _learned(harness, learner, algorithm, sizes, settings.seed, (groups, ahead.window(sizes.lag)), meter)
    ahead.publish(learner.trainer.version)
    return done


async def _learned(
    harness: Harness,
    learner: Learner,
    algorithm: Algorithm,
    sizes: IterationSizes,
    seed: int,
    sampled: tuple[Sequence[Group], Sequence[int]],
    meter: Meter,
) -> Iteration:
    """What the groups teach, which these versions have sampled; the weights are published, and the outcomes observed."""
    (groups, versions), policy, recalled = sampled, learner.policy, tuple[Recalled, ...]()
    journalled = harness.journal.holds if harness.journal.keeps else None
    terms = Requirements(journalled, frozenset(versions), policy.tokenizer.fingerprint, policy.stops)
    verify_rollouts(groups, terms)
    with waiting_for("training"):
        spot = await in_thread(spotted, groups, learner.trainer, sizes, seed) if sizes.spot else None
        if sizes.recalled:
            for one in sizes.recalled:
                verify_rollouts([one.group], replace(terms, versions=frozenset(one.kept.versions)))
            recalled = await in_thread(compared, sizes.recalled, learner.trainer, sizes)
            sizes = replace(sizes, recalled=[one for one in recalled if one.near])
        learned = await in_thread(learn, groups, algorithm, learner.trainer, sizes, seed)
    meter.lap()
    for group in groups:
        learner.curriculum.observe(group)
    if learned.updates:
        with waiting_for("weights"):
            await learner.channel.publish(learner.trainer.weights(), learner.trainer.version)
    return Iteration(tuple(groups), learned, meter.usage(groups), tuple(versions), spot, recalled)


def learn(groups: Sequence[Group], algorithm: Algorithm, trainer: Trainer, sizes: IterationSizes, seed: int) -> Learned:
    """Optimiser steps over the groups that `select` keeps and those that are recalled, `sizes.epochs` passes in fresh orders.

    With a correction, metrics also tell what it `truncated` and `masked`; a minibatch of which it leaves nothing makes no step.
    """
    chosen = [*algorithm.select(groups), *(one.group for one in sizes.recalled)]
    counts = {rollout.trajectory.id: one.weight for one in sizes.recalled for rollout in one.group.rollouts}
    units = by_group(chosen, algorithm.estimator, algorithm.failures, algorithm.rescale, algorithm.confident_above, algorithm.penalty)
    verify_samples([sample for unit in units for sample in unit], chosen, lambda one: kept(one, algorithm.failures))
    ready = _scored(units, algorithm, trainer, sizes)
    if not algorithm.whole_groups:
        ready = [[sample] for unit in ready for sample in unit]
    steps = [samples for epoch in range(sizes.epochs) for samples in minibatches(ready, sizes.minibatch, seed + epoch)]
    rate = sizes.schedule(len(steps))
    updates, turns, numbers = list[Update](), list[TrainedTurn](), numbered(chosen)
    for samples in steps:
        may_stop()
        left, shares = _weighted(samples, algorithm, counts)
        batch = pack(left, sizes.micro_batch_tokens, workers=sizes.workers, aggregate=algorithm.aggregate)
        in_order = verify_batch(batch, left)
        if batch.trained:
            update = trainer.update(batch, algorithm.objective, StepSettings(rate(len(updates)), sizes.precision))
            turns += trained_turns(batch, in_order, numbers, update, len(updates))
            updates.append(replace(update, metrics={**update.metrics, **shares}))
    return Learned(tuple(updates), tuple(turns))


def _scored(units: Sequence[Sequence[Sample]], algorithm: Algorithm, trainer: Trainer, sizes: IterationSizes) -> list[list[ScoredSample]]:
    """The samples with the log-probabilities that the algorithm takes from elsewhere than the sampler."""
    samples = [sample for unit in units for sample in unit]
    old = [sample.segment.logprobs() for sample in samples]
    reference = old
    if algorithm.old == "recomputed":
        old = scored(samples, trainer.score, sizes.micro_batch_tokens, sizes.workers)
    if algorithm.reference:
        reference = scored(samples, algorithm.reference, sizes.micro_batch_tokens, sizes.workers)
    rest = map(ScoredSample, samples, old, reference)
    return [[next(rest) for _ in unit] for unit in units]


def _weighted(
    samples: Sequence[ScoredSample], algorithm: Algorithm, counts: Mapping[str, float]
) -> tuple[list[WeightedSample], dict[str, float]]:
    """The samples as a correction weighs them, if there is one; those of attempts that count otherwise than once, so many times."""
    left, shares = [WeightedSample.alike(sample) for sample in samples], dict[str, float]()
    if algorithm.correction:
        left, shares = weighted(samples, algorithm.correction)
    times = (counts.get(one.sample.attempt, 1.0) for one in left)
    return [
        one if count == 1 else replace(one, weights=floats(one.weights * count)) for one, count in zip(left, times, strict=True)
    ], shares
