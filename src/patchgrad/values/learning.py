"""What a trainer sees, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from patchgrad.values.arrays import Bools, Floats, Ids, floats, frozen
from patchgrad.values.turns import Segment


@dataclass(frozen=True, slots=True)
class Sample:
    """One training sequence: a segment, and the advantage of each of its **action tokens** (not of each token).

    `keep` says which are trained. `attempt` and `group` name what it is from: an attempt of several segments is several samples.
    """

    segment: Segment
    advantages: Floats
    keep: Bools
    attempt: str
    group: str

    @property
    def trained(self) -> Bools:
        """The kept tokens that something precedes: nothing could predict an action token that opens its sequence."""
        trained = self.keep.copy()
        trained[:1] &= len(self.segment.turns[0].context) > 0
        return frozen(trained)


@dataclass(frozen=True, slots=True)
class ScoredSample:
    """A sample with log-probabilities of its action tokens under other policies than the one that sampled.

    Ratios are taken to `old`, and a KL penalty pulls to `reference`.
    """

    sample: Sample
    old: Floats
    reference: Floats

    @classmethod
    def as_sampled(cls, sample: Sample) -> Self:
        """Both are what the sampler said, where nobody else is asked."""
        sampled = sample.segment.logprobs()
        return cls(sample, sampled, sampled)


@dataclass(frozen=True, slots=True)
class WeightedSample:
    """A scored sample, with how much the cost of each action token counts, and which of them are trained.

    What a correction masks is no longer `trained`.
    """

    scored: ScoredSample
    weights: Floats
    trained: Bools

    @classmethod
    def alike(cls, scored: ScoredSample) -> Self:
        """Every token counts once, where nothing is corrected."""
        return cls(scored, floats(np.ones(len(scored.old))), scored.sample.trained)

    @property
    def sample(self) -> Sample:
        return self.scored.sample


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Sequences laid end to end within a token budget, each of them whole. All arrays but `starts` have one entry per token.

    Two samples of 3 and 2 tokens: `tokens [a b c d e]`, `positions [0 1 2 0 1]`, `starts [0 3 5]`. `mask[i]` says that token i is
    a trained action token: its log-probability is predicted at i-1. The other arrays are zero elsewhere. `sampled` are log-probabilities
    under the policy that sampled; `weights` is how much more than in a mean over the batch's trained tokens each cost counts.
    """

    tokens: Ids
    positions: Ids
    starts: Ids
    mask: Bools
    sampled: Floats
    old: Floats
    reference: Floats
    advantages: Floats
    weights: Floats


@dataclass(frozen=True, slots=True)
class Batch:
    """What one optimiser step sees. `trained` counts mask tokens over all packs: a loss is the weighted sum of their costs over it."""

    micro_batches: tuple[MicroBatch, ...]
    trained: int
    sequences: int


@dataclass(frozen=True, slots=True)
class Readings:
    """What the weights said of the mask tokens of a micro-batch, in their order, before they moved: arrays `[N]`, in nats."""

    logprobs: Floats
    entropies: Floats


@dataclass(frozen=True, slots=True)
class Update:
    """One optimiser step: the policy version it made, what was measured on the way, and what it read in each micro-batch."""

    version: int
    metrics: Mapping[str, float]
    readings: tuple[Readings, ...]


@dataclass(frozen=True, slots=True)
class TrainedTurn:
    """What one optimiser step made of one turn of an attempt. Arrays have an entry for each action token, NaN where it was not trained.

    `turn` counts the turns of the attempt from 1 and `update` the steps of the iteration from 0; `version` is the one that it made.
    `weights` is how much more than in a mean over the step's trained tokens each cost counted. `old` are log-probabilities that ratios were
    taken to, NaN where the action was sampled after another prompt than it was learned after. `logprobs` and `entropies` are of the weights
    before the step, in nats.

    Of an action of three tokens of which the last was masked, with an advantage of 0.5: `advantages [0.5 0.5 nan]`.
    """

    attempt: str
    turn: int
    update: int
    version: int
    advantages: Floats
    weights: Floats
    old: Floats
    logprobs: Floats
    entropies: Floats


@dataclass(frozen=True, slots=True)
class StepSettings:
    """How one optimiser step is made: its learning rate, and the precision of matrix products, `None` for the trainer's own."""

    lr: float
    precision: Literal["float32", "bfloat16"] | None = None
