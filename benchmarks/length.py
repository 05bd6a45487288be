"""What a longer stream costs: a turn at turn 128 against one at turn 8, and training at 8,192 tokens against 2,048.

    python benchmarks/length.py [--rounds 3] [--rows 8]

The embedded policy draws 20 tokens a turn and reads 40, for so many episodes together, with caches kept; CPU-seconds of the turns around
the eighth and the last, and of what in them is not attention, which reads all that was said. The trainer makes a step of 16,384 tokens in
sequences of either length. `arithmetic` and `turn_arithmetic` are what multiplications alone would make of either, since attention has more
of them the more was said. Prints progress, and JSON last.
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median
from typing import Any

import numpy as np
import torch
from trainer import SHAPE, group

from patchgrad.networks.attention import Cache, Places
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.objectives.clipped import clipped
from patchgrad.policies.embedded.sampler import Request, Sampler
from patchgrad.recipes.calibration import work
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Floats, Sampling, ids

TURNS, FIRST, NEW, ANSWER, AROUND = 128, 300, 20, 40, 4
VOCABULARY = 2048


class Timed(Cache):
    """A cache that knows how long it was read."""

    seconds = 0.0

    def attend(self, layer: int, q: Floats, k: Floats, v: Floats, slots: Places, positions: Places) -> Floats:
        began = time.process_time()
        attended = super().attend(layer, q, k, v, slots, positions)
        self.seconds += time.process_time() - began
        return attended


class TimedDecoder(CachedDecoder):
    """A decoder with such caches."""

    def cache(self, slots: int) -> Timed:
        return Timed(self.config, slots, self.length)


def turns(rows: int, seed: int) -> list[tuple[float, float]]:
    """CPU-seconds of each turn of these episodes together, and what of them is not attention."""
    random = np.random.default_rng(seed)
    sampler = Sampler(TimedDecoder(Decoder(DecoderConfig(VOCABULARY)), 8192), sessions=rows, rows=rows, eos=frozenset())
    streams = [ids(random.integers(3, VOCABULARY, FIRST)) for _ in range(rows)]
    spent = []
    for turn in range(TURNS):
        began, read = time.process_time(), sampler.cache.seconds
        sampler.admit([Request(str(i), stream, Sampling(NEW, seed=1000 * i + turn), NEW) for i, stream in enumerate(streams)])
        done = []
        while sampler.live:
            done += sampler.step()
        whole = time.process_time() - began
        spent.append((whole, whole - (sampler.cache.seconds - read)))
        for drawn in done:
            place = int(drawn.request.session)
            streams[place] = ids(np.concatenate([streams[place], drawn.tokens, random.integers(3, VOCABULARY, ANSWER)]))
    return spent


def multiplied(turn: int) -> int:
    """Multiplications of an episode's turn: those of its tokens with the matrices and with all keys and values before, and the logits."""
    shape, before = DecoderConfig(VOCABULARY), FIRST + (NEW + ANSWER) * (turn - 1)
    return (NEW + ANSWER) * shape.layers * (shape.dense + shape.paired * (before + (NEW + ANSWER) // 2)) + NEW * VOCABULARY * shape.hidden


def training(length: int) -> float:
    """Tokens a CPU-second of a step."""
    trainer, batch = LocalTrainer(Decoder(SHAPE, 0), share=False), group(16_384 // length, length, 0.0)
    trainer.update(batch, clipped())
    began = time.process_time()
    trainer.update(batch, clipped())
    return 16_384 / (time.process_time() - began)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    late, beside, long, seen = [], [], [], []
    with torch.inference_mode():
        turns(1, 0)  # compiles
    for number in range(options.rounds):
        with torch.inference_mode():
            spent = turns(options.rows, number)
        (early, rest), (end, rest_then) = (
            [median(one) for one in zip(*part, strict=True)] for part in (spent[8 - AROUND : 8 + AROUND], spent[-2 * AROUND :])
        )
        seen.append((early, end))
        late.append(end / early)
        beside.append(rest_then / rest)
        long.append(training(8192) / training(2048))
        print(
            number,
            f"turn 128 / turn 8: {late[-1]:.2f}, without attention {beside[-1]:.2f}, training at 8,192 / 2,048: {long[-1]:.2f}",
            flush=True,
        )
    short, longer = (sum(work(SHAPE, (length,) * (16_384 // length), 0, False)) for length in (2048, 8192))
    told: dict[str, Any] = {
        "rows": options.rows,
        "arithmetic": short / longer,
        "turn_arithmetic": multiplied(TURNS) / multiplied(8),
        "turn_seconds": [median(one) for one in zip(*seen, strict=True)],
    }
    for name, ratios in (("late_over_early", late), ("late_over_early_beside", beside), ("long_over_short", long)):
        told[name] = {"median": median(ratios), "least": min(ratios), "most": max(ratios)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
