"""Samples to batches within a token budget; nothing is cut, nothing is dropped, no order is needed.

A sequence is whole in its pack, so what is said of a sequence can be computed there; what is said of a batch, as how much each
of its tokens weighs in a mean, is computed here, once, so that it does not depend on packs.

Sequences that begin alike lie in one pack, where what they have in common is computed once (`networks/prefixes.py`) and counts once.

Samples of 5, 3 and 2 tokens with a budget of 6 become packs of 5 and of 3 + 2 tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import TypeVar

import numpy as np

from patchgrad.contracts import Aggregate, Score
from patchgrad.learning.aggregation import token_mean
from patchgrad.values import Batch, Floats, MicroBatch, Sample, ScoredSample, WeightedSample, common, floats, ids

T = TypeVar("T")

# --- aggregate -----------------------------------------------------------------------------------
#
# How costs become one loss is part of an algorithm. Each of these gives the weights of samples beside those in a mean over the batch's
# trained tokens. "seq" is an attempt: all of its segments in the batch. What teaches nothing is in no batch, so it is not counted.
# With costs of 1 on both tokens of one attempt and of 2 on all eight of another, the first four are 1.8, 1.5, 9 and, by 10, 0.9.


# --- pack ----------------------------------------------------------------------------------------


def pack(
    samples: Sequence[WeightedSample], budget: int, context: float = 0.0, workers: int = 1, aggregate: Aggregate = token_mean
) -> Batch:
    """Packs whose distinct tokens are within the budget, `workers` of which, each taking every so-many-th, have like much to compute.

    A sample over the budget has a pack of its own. A kept action token that opens its sequence could not be predicted from anything,
    so it is left out of the mask. With `context` the other tokens are trained too, at that advantage: a language model of prompts and
    observations, for supervised warm-up only. What `aggregate` says of a sample multiplies the weights of its tokens.

    Samples of 5, 3 and 2 tokens with a budget of 20 are one pack for one worker, and packs of 5 and of 3 + 2 for two.
    """
    said = {id(one.sample): (one, weight) for one, weight in zip(samples, aggregate(samples), strict=True)}
    bins = _bins([one.sample for one in samples], budget, workers)
    micro_batches = tuple(_join([said[id(sample)] for sample in members], context) for members in bins)
    return Batch(micro_batches, sum(int(part.mask.sum()) for part in micro_batches), len(samples))


def scored(samples: Sequence[Sample], score: Score, budget: int, workers: int = 1) -> list[Floats]:
    """What `score` says of every action token of each sample; where a token is not trained, what the sampler said."""
    bins = _bins(samples, budget, workers)
    plain = [[(WeightedSample.alike(ScoredSample.as_sampled(sample)), 1.0) for sample in members] for members in bins]
    micro_batches = tuple(_join(members, 0.0) for members in plain)
    batch = Batch(micro_batches, sum(int(part.mask.sum()) for part in micro_batches), len(samples))
    found: dict[int, Floats] = {}
    for members, micro_batch, values in zip(bins, micro_batches, score(batch), strict=True):
        for sample, (first, last) in zip(members, pairwise(micro_batch.starts.tolist()), strict=True):
            own = values[first:last][sample.segment.actions()]
            found[id(sample)] = floats(np.where(sample.trained, own, sample.segment.logprobs()))
    return [found[id(sample)] for sample in samples]


def minibatches(units: Sequence[Sequence[T]], size: int, seed: int) -> list[list[T]]:
    """A seeded shuffle of units of samples dealt into lists of at least `size` samples, the last one perhaps shorter; no unit is cut.

    Units of 3, 3 and 1 samples with a size of 4 give, in this order, lists of 6 and 1.
    """
    parts: list[list[T]] = []
    for i in np.random.default_rng(seed).permutation(len(units)):
        if not parts or len(parts[-1]) >= size:
            parts.append([])
        parts[-1] += units[i]
    return parts


# --- bins ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Text:
    """A sample of `length` tokens, of which those but the last `own` stand in the one before it too."""

    sample: Sample
    length: int
    own: int


_Bins = list[list[_Text]]


def _bins(samples: Sequence[Sample], budget: int, workers: int) -> list[list[Sample]]:
    """Lists of samples for workers that take turns: what begins alike side by side, or lists of like length, by who is done first."""
    row = _row(samples)
    bins = min(_sliced(row, budget, workers), _spread(row, budget, workers), key=lambda one: (_busiest(one, workers), len(one)))
    return [[text.sample for text in members] for members in bins]


def _row(samples: Sequence[Sample]) -> list[_Text]:
    """In the order of their tokens, in which neighbours have the most in common."""
    tokens = {id(sample): sample.segment.tokens() for sample in samples}
    order = sorted(samples, key=lambda sample: tokens[id(sample)].astype(">u4").tobytes())
    known = [0, *(common(tokens[id(left)], tokens[id(right)]) for left, right in pairwise(order))]
    return [_Text(one, len(tokens[id(one)]), len(tokens[id(one)]) - shared) for one, shared in zip(order, known, strict=False)]


def _size(run: Sequence[_Text]) -> int:
    """The distinct tokens of neighbours in a row."""
    return run[0].length + sum(text.own for text in run[1:]) if run else 0


def _busiest(bins: _Bins, workers: int) -> int:
    """The tokens of the worker that computes the most."""
    return max(sum(_size(_row([text.sample for text in members])) for members in bins[first::workers]) for first in range(workers))


def _fit(bins: _Bins, budget: int) -> bool:
    return all(len(members) == 1 or _size(members) <= budget for members in bins)


def _sliced(row: Sequence[_Text], budget: int, workers: int) -> _Bins:
    """A slice of the row for each worker, each cut into equally many packs."""
    slices = _cut(row, workers)
    count = max((-(-_size(one) // budget) for one in slices), default=1)
    while not all(_fit(_cut(one, count), budget) for one in slices):
        count += 1
    turns = zip_longest(*sorted((_cut(one, count) for one in slices), key=len, reverse=True))
    return [members for turn in turns for members in turn if members]


def _cut(row: Sequence[_Text], parts: int) -> _Bins:
    """At most so many runs of neighbours, of which none that could be shorter has more distinct tokens than it has to."""

    def runs(most: int) -> _Bins:
        found: _Bins = []
        size = 0
        for text in row:
            if found and size + text.own <= most:
                found[-1].append(text)
                size += text.own
            else:
                found.append([text])
                size = text.length
        return found

    return runs(bisect_left(range(_size(row)), True, key=lambda most: len(runs(most)) <= parts))


def _spread(row: Sequence[_Text], budget: int, workers: int) -> _Bins:
    """Longest first, each into the shortest of as few lists as there are workers, or so many times more."""
    longest_first = sorted((_Text(text.sample, text.length, text.length) for text in row), key=lambda text: -text.length)
    count = workers * max(1, -(-_size(longest_first) // (budget * workers)))
    while not _fit(bins := _dealt(longest_first, count), budget):
        count += workers
    return bins


def _dealt(texts: Sequence[_Text], count: int) -> _Bins:
    bins: _Bins = [[] for _ in range(count)]
    filled = [0] * count
    for text in texts:
        place = filled.index(min(filled))
        bins[place].append(text)
        filled[place] += text.length
    return [members for members in bins if members]


def _join(members: Sequence[tuple[WeightedSample, float]], context: float) -> MicroBatch:
    """Samples end to end, each with its weight beside the others."""
    tokens = [one.sample.segment.tokens() for one, _ in members]
    starts = np.cumsum([0, *(len(part) for part in tokens)])
    size = int(starts[-1])
    mask = np.zeros(size, bool)
    filled = {name: np.zeros(size, np.float32) for name in ("sampled", "old", "reference", "advantages", "weights")}
    for (one, weight), first in zip(members, starts[:-1], strict=True):
        segment, trained = one.sample.segment, one.trained
        if context:
            others = first + 1 + np.flatnonzero(~segment.actions()[1:])
            mask[others], filled["advantages"][others], filled["weights"][others] = True, context, weight
        at = first + np.flatnonzero(segment.actions())[trained]
        mask[at] = True
        filled["sampled"][at] = segment.logprobs()[trained]
        filled["weights"][at] = weight * one.weights[trained]
        filled["old"][at], filled["reference"][at] = one.scored.old[trained], one.scored.reference[trained]
        filled["advantages"][at] = one.sample.advantages[trained]
    positions = np.concatenate([np.arange(len(part)) for part in tokens])
    mask.setflags(write=False)
    parts = {name: floats(part) for name, part in filled.items()}
    return MicroBatch(ids(np.concatenate(tokens)), ids(positions), ids(starts), mask, **parts)
