"""Samples to batches within a token budget; nothing is cut, nothing is dropped, no order is needed.

Samples of 5, 3 and 2 tokens with a budget of 6 become packs of 5 and of 3 + 2 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from patchgrad.values import Batch, Pack, Sample, floats, ids


def pack(samples: Sequence[Sample], budget: int, context: float = 0.0, workers: int = 1) -> Batch:
    """As few packs as the budget allows and that `workers` can share alike: longest first, each into the pack with most room.

    A sample over the budget has a pack of its own. A kept action token that opens its sequence could not be predicted from anything,
    so it is left out of the mask. With `context` the other tokens are trained too, at that advantage: a language model of prompts and
    observations, for supervised warm-up only.

    Samples of 5, 3 and 2 tokens with a budget of 20 are one pack for one worker, and packs of 5 and of 3 + 2 for two.
    """
    lengths = {id(sample): len(sample.segment.tokens()) for sample in samples}
    longest_first = sorted(samples, key=lambda sample: -lengths[id(sample)])
    count = workers * max(1, -(-sum(lengths.values()) // (budget * workers)))
    bins = _spread(longest_first, lengths, count)
    while any(len(members) > 1 and sum(lengths[id(sample)] for sample in members) > budget for members in bins):
        count += workers
        bins = _spread(longest_first, lengths, count)
    packs = tuple(_join(members, context) for members in bins)
    return Batch(packs, sum(int(p.mask.sum()) for p in packs), len(samples))


def minibatches(units: Sequence[Sequence[Sample]], size: int, seed: int) -> list[list[Sample]]:
    """A seeded shuffle of units dealt into lists of at least `size` samples, the last one perhaps shorter; no unit is cut.

    Units of 3, 3 and 1 samples with a size of 4 give, in this order, lists of 6 and 1.
    """
    parts: list[list[Sample]] = []
    for i in np.random.default_rng(seed).permutation(len(units)):
        if not parts or len(parts[-1]) >= size:
            parts.append([])
        parts[-1] += units[i]
    return parts


def _spread(samples: Sequence[Sample], lengths: Mapping[int, int], count: int) -> list[list[Sample]]:
    """Each sample into the shortest of `count` lists; lists that stay empty are left out."""
    bins: list[list[Sample]] = [[] for _ in range(count)]
    filled = [0] * count
    for sample in samples:
        place = filled.index(min(filled))
        bins[place].append(sample)
        filled[place] += lengths[id(sample)]
    return [members for members in bins if members]


def _join(samples: Sequence[Sample], context: float) -> Pack:
    tokens = [sample.segment.tokens() for sample in samples]
    starts = np.cumsum([0, *(len(part) for part in tokens)])
    size = int(starts[-1])
    mask = np.zeros(size, bool)
    logprobs, advantages = np.zeros(size, np.float32), np.zeros(size, np.float32)
    for sample, first in zip(samples, starts[:-1], strict=True):
        if context:
            others = first + 1 + np.flatnonzero(~sample.segment.actions()[1:])
            mask[others], advantages[others] = True, context
        at = first + np.flatnonzero(sample.segment.actions())
        kept = sample.keep & (at > first)
        mask[at[kept]] = True
        logprobs[at[kept]] = sample.segment.logprobs()[kept]
        advantages[at[kept]] = sample.advantages[kept]
    positions = np.concatenate([np.arange(len(part)) for part in tokens])
    mask.setflags(write=False)
    return Pack(ids(np.concatenate(tokens)), ids(positions), ids(starts), mask, floats(logprobs), floats(advantages))
