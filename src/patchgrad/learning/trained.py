"""What an optimiser step made of each turn that it trained: from arrays over micro-batches back to turns of attempts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from patchgrad.values import Batch, Floats, Group, MicroBatch, Readings, TrainedTurn, Update, WeightedSample, floats


def numbered(groups: Sequence[Group]) -> dict[str, int]:
    """Of each turn of these attempts, by its address, which one of its attempt it is, from 1 on."""
    attempts = [rollout.trajectory for group in groups for rollout in group.rollouts]
    return {turn.address: number for attempt in attempts for number, turn in enumerate(attempt.turns, 1)}


def trained_turns(
    batch: Batch, samples: Sequence[WeightedSample], numbers: Mapping[str, int], update: Update, place: int
) -> Iterator[TrainedTurn]:
    """The turns of which the update in this place of its iteration trained a token.

    `samples` are in the order of the batch's sequences, and `numbers` are those of turns by address.

    A sequence `[a b c d e f]` with the actions `[b c]` and `[e f]`, of which `mask [F T T F T F]` was trained, gives two turns, the second
    with NaN at its last token.
    """
    rest = iter(samples)
    for micro_batch, readings in zip(batch.micro_batches, update.readings, strict=True):
        told = _told(micro_batch, readings)
        for first, last in pairwise(micro_batch.starts.tolist()):
            sample = next(rest).sample
            own = [array[first:last][sample.segment.actions()] for array in told]
            ends = np.cumsum([0, *(len(turn.action.token_ids) for turn in sample.segment.turns)]).tolist()
            for turn, (begin, end) in zip(sample.segment.turns, pairwise(ends), strict=True):
                parts = [floats(array[begin:end]) for array in own]
                if not np.isnan(parts[0]).all():
                    yield TrainedTurn(sample.attempt, numbers[turn.address], place, update.version, *parts)


def _told(micro_batch: MicroBatch, readings: Readings) -> list[Floats]:
    """The arrays of a `TrainedTurn` over all tokens of a micro-batch, NaN where none is trained."""
    found = [np.where(micro_batch.mask, array, np.nan) for array in (micro_batch.advantages, micro_batch.weights, micro_batch.old)]
    for read in (readings.logprobs, readings.entropies):
        found.append(np.full(len(micro_batch.tokens), np.nan))
        found[-1][micro_batch.mask] = read
    return [floats(array) for array in found]
