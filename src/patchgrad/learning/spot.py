"""Some attempts of an iteration are read again by the trainer: are they what the weights say that they claim to be drawn from?

The chains of an attempt show that it was not changed after it was sampled. They do not show that the sampler was honest, or whole: that it
had the weights of the version that it names, drew from their softmax, and computed in the arithmetic that was asked for. Of one that did
not in a share d of its attempts, n attempts of which a share s is read again show it with a probability of 1 - (1 - s)^(d n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from patchgrad.contracts import Trainer
from patchgrad.learning.algorithm import IterationSizes
from patchgrad.learning.packing import pack, scored
from patchgrad.values import Floats, Group, Sample, ScoredSample, Trajectory, WeightedSample, digest, floats, frozen


@dataclass(frozen=True, slots=True)
class Spot:
    """What so many `actions` of the trainer's own version tell.

    `logprob_diff` is the mean absolute difference of log-probabilities of the action where it is largest, which is turn `turn` of
    `attempt`. `sampling_z` is by how many standard errors -log p is above the entropy, over all of them (`Trainer.nll_excess`).
    """

    actions: int
    logprob_diff: float
    sampling_z: float
    attempt: str
    turn: int


def spotted(groups: Sequence[Group], trainer: Trainer, sizes: IterationSizes, seed: int) -> Spot | None:
    """Reads a share of `sizes.spot` of the attempts again; none where no attempt that is drawn has an action of the trainer's version.

    Which attempts are drawn depends on their names and the seed alone.
    """
    attempts = {rollout.trajectory.id: rollout.trajectory for group in groups for rollout in group.rollouts if not rollout.broken}
    chosen = [one for id, one in attempts.items() if int(digest(f"spot {seed} {id}")[:8], 16) < sizes.spot * 16**8]
    samples = [sample for one in chosen for sample in _samples(one, trainer.version)]
    if not samples:
        return None
    said = scored([one for one, _ in samples], trainer.score, sizes.micro_batch_tokens, sizes.workers)
    found = [action for (sample, first), values in zip(samples, said, strict=True) for action in _apart(sample, first, values)]
    ready = [WeightedSample.alike(ScoredSample.as_sampled(sample)) for sample, _ in samples]
    excess, variance = trainer.nll_excess(pack(ready, sizes.micro_batch_tokens, workers=sizes.workers))
    worst, attempt, turn = max(found)
    return Spot(len(found), worst, excess / math.sqrt(variance) if variance > 0 else 0.0, attempt, turn)


def _samples(attempt: Trajectory, version: int) -> list[tuple[Sample, int]]:
    """The attempt's segments, with the tokens kept that it has drawn under this version, and the number of the first turn of each."""
    found, first = list[tuple[Sample, int]](), 1
    for segment in attempt.segments:
        own = enumerate((turn.action.drawn_under == version for turn in segment.turns), first)
        keep = frozen(np.concatenate([mine & (number > attempt.replayed) for number, mine in own]))
        sample = Sample(segment, floats(np.ones(len(keep))), keep, attempt.id, attempt.task)
        found += [(sample, first)] if sample.trained.any() else []
        first += len(segment.turns)
    return found


def _apart(sample: Sample, first: int, values: Floats) -> list[tuple[float, str, int]]:
    """How far the log-probabilities of each action that is kept are from what the trainer says, with its attempt and turn."""
    off, kept = np.abs(values - sample.segment.logprobs()), sample.trained
    ends = np.cumsum([0, *(len(turn.action.token_ids) for turn in sample.segment.turns)]).tolist()
    parts = enumerate(pairwise(ends), first)
    return [(float(off[a:b][kept[a:b]].mean()), sample.attempt, turn) for turn, (a, b) in parts if kept[a:b].any()]
