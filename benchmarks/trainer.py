"""The trainer: a group whose attempts share their beginning against the same attempts as separate rows.

    python benchmarks/trainer.py [--attempts 8] [--tokens 2048] [--shared 0.75] [--rounds 7] [--shape qwen3-0.6b]

The network is the laptop's, or a few layers of a Qwen3. Forward and backward pass, in seconds of the process's CPU, both sides by turns
in each round, one worker; the ratio is told with its spread over rounds, beside the one that multiplications alone would have. The
optimiser's step, which is the same for both and made once for many groups, is told apart. So is how far gradients are apart in float64.
Prints progress, and JSON last.
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median

import numpy as np
import torch

from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.packing import pack
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.prefixes import Layout, apart, multiplications, together
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Action, Batch, Call, Ids, MicroBatch, Observation, Sample, Segment, ToolState, Turn, floats, ids

TURN, DRAWN = 200, 30  # tokens of a turn, and how many of them were drawn
RATE = 1e-4
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


def multiplied(layout: Layout, whole: MicroBatch, shape: DecoderConfig) -> float:
    """Multiplications of a forward pass: all layers but the last of all tokens, and the last of those that are read."""
    said = layout.said(whole.mask.nonzero()[0] - 1)
    pairs = float((whole.positions[layout.first][said] + 1).sum())
    last = len(layout.first) * shape.kept + len(said) * (shape.dense - shape.kept) + pairs * shape.paired
    return (shape.layers - 1) * multiplications(layout, shape.dense, shape.paired) + last


def logprob_diff(batch: Batch, shape: DecoderConfig) -> float:
    """The largest difference between gradients with and without sharing, over the largest gradient, in float64."""
    told = []
    for share in (False, True):
        trainer = LocalTrainer(Decoder(shape, 0).double(), share=share)
        told.append(trainer.gradients(batch, Clipped())[0])
    largest = max(float(one.abs().max()) for one in told[0].values())
    return max(float((told[0][name] - told[1][name]).abs().max()) for name in told[0]) / largest


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--shared", type=float, default=0.75)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shape", choices=SHAPES, default="laptop")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shape = SHAPES[options.shape]
    batch = group(options.attempts, options.tokens, options.shared, shape)
    trainers = {share: LocalTrainer(Decoder(shape, 0), share=share) for share in (False, True)}
    spent: dict[bool, list[float]] = {False: [], True: []}
    steps = []
    for number in range(options.rounds + 1):
        for share, trainer in trainers.items():
            began = time.process_time()
            gradients, _ = trainer.gradients(batch, Clipped())
            passed = time.process_time()
            trainer.optimiser.step(gradients, RATE)
            if number:
                spent[share].append(passed - began)
                steps.append(time.process_time() - passed)
        print(number, {("shared" if share else "separate"): round(times[-1], 2) for share, times in spent.items() if times}, flush=True)
    (whole,) = batch.micro_batches
    layouts = apart(whole.starts.tolist()), together(whole.tokens, whole.starts.tolist())
    separately, once = (multiplied(layout, whole, shape) for layout in layouts)
    ratios = [separate / shared for separate, shared in zip(spent[False], spent[True], strict=True)]
    told = {
        "shape": options.shape,
        "parameters": folder.count(trainers[True].network),
        "attempts": options.attempts,
        "tokens": options.tokens,
        "shared": options.shared,
        "seconds": {"separate": median(spent[False]), "shared": median(spent[True])},
        "ratio": {"median": median(ratios), "least": min(ratios), "most": max(ratios)},
        "step": median(steps),
        "arithmetic": separately / once,
        "gradient_gap": logprob_diff(batch, shape),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
