"""Batches of attempts that look like those of a run: turns of an observation and an action, which begin alike."""

from __future__ import annotations

import numpy as np

from patchgrad.learning.packing import pack
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.values import Action, Batch, Call, Ids, Observation, Sample, Segment, ToolState, Turn, floats, ids

TURN, DRAWN = 200, 30  # tokens of a turn, and how many of them were drawn
SHAPE = DecoderConfig(1024, hidden=192, layers=4, heads=3, kv_heads=3, head_size=64, intermediate=512)
FEW = {"qwen3-0.6b": (4, 1024, 16, 3072), "qwen3-4b": (2, 2560, 32, 9728), "qwen3-8b": (2, 4096, 32, 12288)}
"""Of a few layers of theirs: how many, hidden, heads, intermediate. The last one computes less, and has a larger part than in the whole."""
SHAPES = {"laptop": SHAPE} | {
    name: DecoderConfig(1024, hidden=hidden, layers=layers, heads=heads, kv_heads=8, head_size=128, intermediate=intermediate)
    for name, (layers, hidden, heads, intermediate) in FEW.items()
}


def group(attempts: int, tokens: int, shared: float, shape: DecoderConfig = SHAPE, budget: int = 0) -> Batch:
    """Attempts of so many tokens, of which the first share is the same in all: turns of an observation and an action.

    In packs of a budget, or in one.
    """
    random = np.random.default_rng(0)
    stem = random.integers(3, shape.vocabulary, tokens)
    samples = []
    for number in range(attempts):
        stream = np.concatenate([stem[: int(shared * tokens)], random.integers(3, shape.vocabulary, tokens - int(shared * tokens))])
        turns = [_turn(stream[first : first + TURN]) for first in range(0, tokens, TURN)]
        drawn = sum(len(turn.action.token_ids) for turn in turns)
        segment = Segment(tuple(turns))
        samples.append(Sample.of(segment, floats(random.normal(size=drawn)), np.ones(drawn, bool), str(number), "0"))
    return pack(samples, budget or attempts * tokens)


def _turn(stream: Ids) -> Turn:
    context, drawn = ids(stream[:-DRAWN]), ids(stream[-DRAWN:])
    return Turn(context, Action(drawn, floats([-7.0] * DRAWN), 0, "", "stop"), Call("shell", ""), Observation("", ToolState()), "", "")
