"""What a longer stream costs: a turn at turn 128 against one at turn 8, and training at 8,192 tokens against 2,048.

    python benchmarks/training/length.py [--rounds 3] [--rows 8] [--tokens 16384] [--shape qwen3-8b]

The network is the laptop's, or a few layers of a Qwen3. The embedded policy draws 20 tokens a turn and reads 40, for so many episodes
together, with caches kept; CPU-seconds of the turns around the eighth and the last, and of what in them is not attention, which reads all
that was said. The trainer makes gradients of 16,384 tokens in sequences of either length. `arithmetic` and `turn_arithmetic` are what
multiplications alone would make of either, since attention has more of them the more was said. Prints progress, and JSON last.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.batches import DRAWN, SHAPES, TURN, group
from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import cpu_seconds, spread

from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lanes import Places
from patchgrad.networks.slots import Cache
from patchgrad.policies.embedded.draws import Request
from patchgrad.policies.embedded.sampler import Sampler
from patchgrad.runs.planning.calibration import work
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Floats, Sampling, ids

TURNS, FIRST, NEW, ANSWER, AROUND = 128, 300, 20, 40, 4
SHORT, LONG = 2048, 8192
POLICY = DecoderConfig(2048)  # what plays in the recipe `laptop`, whose trainer's benchmarks have a larger one


class Timed(Cache):
    """A cache that knows how long it was read."""

    seconds = 0.0

    def attend(self, layer: int, q: Floats, k: Floats, v: Floats, slots: Places, positions: Places, wanted: Places) -> Floats:
        began = time.process_time()
        attended = super().attend(layer, q, k, v, slots, positions, wanted)
        self.seconds += time.process_time() - began
        return attended


class TimedDecoder(CachedDecoder):
    """A decoder with such caches."""

    def cache(self, slots: int) -> Timed:
        return Timed(self.config, slots, self.length)


def turns(shape: DecoderConfig, rows: int, seed: int) -> list[tuple[float, float]]:
    """CPU-seconds of each turn of these episodes together, and what of them is not attention."""
    random = np.random.default_rng(seed)
    sampler = Sampler(TimedDecoder(Decoder(shape), 8192), sessions=rows, rows=rows, eos=frozenset())
    streams = [ids(random.integers(3, shape.vocabulary, FIRST)) for _ in range(rows)]
    spent = []
    for turn in range(TURNS):
        began, read = time.process_time(), sampler.streams.cache.seconds
        sampler.admit([Request(str(i), stream, Sampling(NEW, seed=1000 * i + turn), NEW) for i, stream in enumerate(streams)])
        done = []
        while sampler.live:
            done += sampler.step()
        whole = time.process_time() - began
        spent.append((whole, whole - (sampler.streams.cache.seconds - read)))
        for drawn in done:
            place = int(drawn.request.session)
            streams[place] = ids(np.concatenate([streams[place], drawn.tokens, random.integers(3, shape.vocabulary, ANSWER)]))
    return spent


def multiplied(shape: DecoderConfig, turn: int) -> int:
    """Multiplications of an episode's turn: those of its tokens with the matrices and with all keys and values before, and the logits.

    In the last layer tokens that are only read have a key and a value, and no more.
    """
    before = FIRST + (NEW + ANSWER) * (turn - 1)
    each = shape.dense + shape.paired * (before + (NEW + ANSWER) // 2)
    return (NEW + ANSWER) * (shape.layers - 1) * each + NEW * each + ANSWER * shape.kept + NEW * shape.vocabulary * shape.hidden


def training(shape: DecoderConfig, tokens: int) -> float:
    """Tokens a CPU-second of long sequences over those of short ones, forward and backward pass."""
    trainer = LocalTrainer(Decoder(shape, 0), share=False)
    trainer.gradients(group(1, SHORT // 4, 0.0, shape), Clipped())  # compiles
    spent = []
    for length in (SHORT, LONG):
        batch = group(tokens // length, length, 0.0, shape)
        spent.append(cpu_seconds(partial(trainer.gradients, batch, Clipped()))[0])
    return spent[0] / spent[1]


def main() -> None:
    """Measures and prints."""
    asked = parser(__doc__)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--rows", type=int, default=8)
    asked.add_argument("--tokens", type=int, default=16_384)
    asked.add_argument("--shape", choices=SHAPES, default="laptop")
    options = asked.parse_args()
    if options.tokens < LONG or options.tokens % LONG:
        asked.error(f"--tokens has to be {LONG} or so many times that")
    torch.set_num_threads(1)
    trained = SHAPES[options.shape]
    played = POLICY if options.shape == "laptop" else trained
    late, beside, long, seen = [], [], [], []
    with torch.inference_mode():
        turns(POLICY, 1, 0)  # compiles
    for number in range(options.rounds):
        with torch.inference_mode():
            spent = turns(played, options.rows, number)
        (early, rest), (end, rest_then) = (
            [median(one) for one in zip(*part, strict=True)] for part in (spent[8 - AROUND : 8 + AROUND], spent[-2 * AROUND :])
        )
        seen.append((early, end))
        late.append(end / early)
        beside.append(rest_then / rest)
        long.append(training(trained, options.tokens))
        print(
            number,
            f"turn 128 / turn 8: {late[-1]:.2f}, without attention {beside[-1]:.2f}, training at 8,192 / 2,048: {long[-1]:.2f}",
            flush=True,
        )
    drawn = options.tokens // TURN * DRAWN
    short, longer = (sum(work(trained, (length,) * (options.tokens // length), drawn, False)) for length in (SHORT, LONG))
    told: dict[str, Any] = {
        "shape": options.shape,
        "rows": options.rows,
        "arithmetic": short / longer,
        "turn_arithmetic": multiplied(played, TURNS) / multiplied(played, 8),
        "turn_seconds": [median(one) for one in zip(*seen, strict=True)],
    }
    for name, ratios in (("late_over_early", late), ("late_over_early_beside", beside), ("long_over_short", long)):
        told[name] = spread(ratios)
    tell(told)


if __name__ == "__main__":
    main()
