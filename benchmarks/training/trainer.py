"""The trainer: a group whose attempts share their beginning against the same attempts as separate rows.

    python benchmarks/training/trainer.py [--attempts 8] [--tokens 2048] [--shared 0.75] [--rounds 7] [--shape qwen3-0.6b]

The network is the laptop's, or a few layers of a Qwen3. Forward and backward pass, in seconds of the process's CPU, both sides by turns
in each round, one worker; the ratio is told with its spread over rounds, beside the one that multiplications alone would have. The
optimiser's step, which is the same for both and made once for many groups, is told apart. So is how far gradients are apart in float64.
Prints progress, and JSON last.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.batches import SHAPES, group
from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import by_turns, cpu_seconds, over, progress, same

from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.prefixes import Layout, apart, multiplications, together
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Batch, MicroBatch

RATE = 1e-4


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
    asked = parser(__doc__)
    asked.add_argument("--attempts", type=int, default=8)
    asked.add_argument("--tokens", type=int, default=2048)
    asked.add_argument("--shared", type=float, default=0.75)
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--shape", choices=SHAPES, default="laptop")
    options = asked.parse_args()
    torch.set_num_threads(1)
    shape = SHAPES[options.shape]
    batch = group(options.attempts, options.tokens, options.shared, shape)
    trainers = {name: LocalTrainer(Decoder(shape, 0), share=name == "shared") for name in ("separate", "shared")}

    def step(trainer: LocalTrainer) -> dict[str, float]:
        passes, (gradients, *_) = cpu_seconds(lambda: trainer.gradients(batch, Clipped()))
        return {"passes": passes, "step": cpu_seconds(lambda: trainer.optimiser.step(gradients, RATE))[0]}

    sides = {name: same(step, trainer) for name, trainer in trainers.items()}
    found = by_turns(sides, options.rounds, progress(), warm_up=1)
    spent = {name: [one["passes"] for one in rounds] for name, rounds in found.items()}
    (whole,) = batch.micro_batches
    layouts = apart(whole.starts.tolist()), together(whole.tokens, whole.starts.tolist())
    separately, once = (multiplied(layout, whole, shape) for layout in layouts)
    told = {
        "shape": options.shape,
        "parameters": folder.count(trainers["shared"].network),
        "attempts": options.attempts,
        "tokens": options.tokens,
        "shared": options.shared,
        "seconds": {name: median(seconds) for name, seconds in spent.items()},
        "ratio": over(spent["separate"], spent["shared"]),
        "step": median(one["step"] for rounds in found.values() for one in rounds),
        "arithmetic": separately / once,
        "gradient_gap": logprob_diff(batch, shape),
    }
    tell(told)


if __name__ == "__main__":
    main()
