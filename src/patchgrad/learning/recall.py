"""Groups that are to be trained again, held against the policy as it is now: those that it would hardly sample any more are left out.

    groups from the buffer -> the trainer's log-probabilities -> effective share of the tokens -> near enough, or not

With w = new / sampled at each token the effective share is (sum w)^2 / (n sum w^2): of n tokens that count so differently, so many alike
ones would tell as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from patchgrad.contracts import LOG_RATIO, Trainer
from patchgrad.learning.algorithm import IterationSizes
from patchgrad.learning.packing import scored
from patchgrad.learning.replay import Recalled
from patchgrad.values import Floats, Group, Sample, floats, frozen


def compared(recalled: Sequence[Recalled], trainer: Trainer, sizes: IterationSizes) -> tuple[Recalled, ...]:
    """The same with their effective shares under the trainer's weights; those below `sizes.least_ess` are not near."""
    parts = [_samples(one.group) for one in recalled]
    samples = [sample for part in parts for sample in part]
    said = iter(scored(samples, trainer.score, sizes.micro_batch_tokens, sizes.workers) if samples else ())
    shares = [effective(floats(np.concatenate([next(said) - sample.segment.logprobs() for sample in part]))) for part in parts]
    return tuple(replace(one, ess=share, near=share >= sizes.least_ess) for one, share in zip(recalled, shares, strict=True))


def effective(ratios: Floats) -> float:
    """The effective share of so many log ratios: 1 where all are alike, next to 1 / n where one is far above the others.

    Two tokens, as likely as when they were sampled and twice as likely, have a share of (1 + 2)^2 / (2 (1 + 4)) = 0.9.
    """
    weights = np.exp(np.clip(ratios.astype(np.float64), -LOG_RATIO, LOG_RATIO))
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def _samples(group: Group) -> list[Sample]:
    """Every segment of the attempts that are whole, all of whose actions are kept."""
    found: list[Sample] = []
    for trajectory in (one.trajectory for one in group.whole):
        for segment in trajectory.segments:
            count = len(segment.logprobs())
            found.append(Sample(segment, floats(np.ones(count)), frozen(np.ones(count, bool)), trajectory.id, trajectory.task))
    return found
