"""The embedded policy and trainer against transformers on the same network: tokens per CPU-second of one thread.

    python benchmarks/sampling/policy.py [--rows 32] [--attempts 8] [--new 20] [--rounds 3] [--model FOLDER] [--no-peer]

So many live episodes of three turns, of which each task has so many attempts with the same prompt; of a small network, or of a model. Where
the processor multiplies `bfloat16`, both sides do so too, beside `float32`. CPU-seconds, because a shared machine's
wall clock measures its neighbours; all sides by turns in each round, medians and the spread of ratios over rounds. Prints progress, and
JSON last.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.batches import alike
from benchmarks.library.command import parser, tell
from benchmarks.library.generate import continuous, opened, padded
from benchmarks.library.pairing import by_turns, cpu_seconds, medians, over, progress, same

from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.packing import pack
from patchgrad.networks import folder
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.products import supported
from patchgrad.networks.rounding import Precision
from patchgrad.policies.embedded.draws import Request
from patchgrad.policies.embedded.sampler import Sampler
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Action, Call, Ids, Observation, Sample, Sampling, Segment, StepSettings, ToolState, Turn, floats, ids

VOCABULARY = 2048
TURNS = 3
ANSWER = 40  # tokens of an observation
STEP = StepSettings(1e-3)


def prompts(rows: int, attempts: int, seed: int = 0) -> list[Ids]:
    random = np.random.default_rng([rows, seed] if seed else rows)
    tasks = [ids(random.integers(3, VOCABULARY, random.integers(200, 600))) for _ in range(-(-rows // attempts))]
    return [tasks[row // attempts] for row in range(rows)]


def ours(network: Decoder, rows: int, attempts: int, new: int, precision: Precision) -> dict[str, float]:
    """Three turns of every row: prefill and decode apart, caches kept between turns."""
    random = np.random.default_rng(0)
    sampler = Sampler(CachedDecoder(network, 1024, precision), sessions=rows, rows=rows, eos=frozenset())
    streams, spent = prompts(rows, attempts), {"first": 0.0, "later": 0.0, "decode": 0.0}
    for turn in range(TURNS):
        sampler.admit([Request(str(i), s, Sampling(new, seed=100 * i + turn), new) for i, s in enumerate(streams)])

        def read() -> list[Any]:
            finished = []
            while any(sampler.streams.length[slot] == sampler.draws.told[slot] for slot in sampler.live):
                finished += sampler.step()
            return finished

        def decode() -> list[Any]:
            finished = []
            while sampler.live:
                finished += sampler.step()
            return finished

        part, done = cpu_seconds(read)
        spent["later" if turn else "first"] += part
        part, finished = cpu_seconds(decode)
        spent["decode"] += part
        for drawn in [*done, *finished]:
            observation = random.integers(3, VOCABULARY, ANSWER)
            place = int(drawn.request.session)
            streams[place] = ids(np.concatenate([streams[place], drawn.tokens, observation]))
    first = sum(len(prompt) for prompt in prompts(rows, attempts))
    return {
        "prefill": first / spent["first"],
        "prefill_later": rows * (TURNS - 1) * (ANSWER + 1) / spent["later"],
        "decode": rows * TURNS * (new - 1) / spent["decode"],
        "three_turns": rows * TURNS * new / sum(spent.values()),
    }


def theirs(model: Any, rows: int, attempts: int, new: int, batching: bool) -> dict[str, float]:
    """The same three turns with `generate`, left-padded, or `generate_batch`, which batches continuously; both read whole streams."""
    streams, spent = prompts(rows, attempts), 0.0
    for _ in range(TURNS):
        ask = continuous if batching else padded
        part, said = cpu_seconds(partial(ask, model, streams, new))
        spent += part
        streams = [ids(np.concatenate([s, drawn, np.full(ANSWER, 5)])) for s, drawn in zip(streams, said, strict=True)]
    return {"three_turns": rows * TURNS * new / spent}


def training(network: Decoder) -> dict[str, float]:
    """One clipped update on 32 episodes of about 500 tokens."""
    random = np.random.default_rng(0)
    samples = []
    for number in range(32):
        turns = []
        for turn in range(6):
            drawn = ids(random.integers(0, VOCABULARY, 20))
            action = Action(drawn, floats(np.full(20, -7.6)), 0, "", "stop")
            context = ids(random.integers(0, VOCABULARY, 50 if turn else 200))
            turns.append(Turn(context, action, Call("shell", ""), Observation("", ToolState()), "", ""))
        samples.append(Sample(Segment(tuple(turns)), floats(random.normal(size=120)), np.ones(120, bool), str(number), "0"))
    trainer, batch = LocalTrainer(network), pack(alike(samples), 4096)
    trainer.update(batch, Clipped(), STEP)
    spent, update = cpu_seconds(lambda: trainer.update(batch, Clipped(), STEP))
    return {"training": update.metrics["tokens"] / spent}


def sampling(network: Decoder, precision: Precision, options: Namespace) -> dict[str, Callable[[int], dict[str, float]]]:
    """Those who sample from a network in this precision, by name: each is told how many rows."""
    asked = {"attempts": options.attempts, "new": options.new}
    sides: dict[str, Callable[[int], dict[str, float]]] = {"patchgrad": lambda rows: ours(network, rows, **asked, precision=precision)}
    if not options.no_peer:
        model = opened(network).to(getattr(torch, precision))
        sides["generate"] = lambda rows: theirs(model, rows, **asked, batching=False)
        if options.continuous:
            sides["generate_batch"] = lambda rows: theirs(model, rows, **asked, batching=True)
    return sides


def main() -> None:
    """Measures and prints."""
    asked = parser(__doc__)
    asked.add_argument("--rows", default="32")
    asked.add_argument("--attempts", type=int, default=8)
    asked.add_argument("--new", type=int, default=20)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--model", type=Path, help="the folder of a model to sample from, in place of a small network")
    asked.add_argument("--no-peer", action="store_true")
    asked.add_argument("--continuous", action="store_true", help="transformers' continuous batching too, which is slow on a CPU")
    options = asked.parse_args()
    torch.set_num_threads(1)
    network = folder.load(options.model, 1024) if options.model else Decoder(DecoderConfig(VOCABULARY))
    sides: dict[str, Callable[[int], dict[str, float]]] = {}
    precisions: list[Precision] = ["float32", "bfloat16"] if supported("bfloat16") == "bfloat16" else ["float32"]
    for precision in precisions:
        sides |= {f"{name}, {precision}": side for name, side in sampling(network, precision, options).items()}
    results: dict[str, Any] = {"parameters": folder.count(network), "attempts": options.attempts, "new": options.new, "rows": {}}
    with torch.inference_mode():
        for side in sides.values():
            side(4)  # what is compiled or set up at first
        for rows in map(int, options.rows.split(",")):
            found = by_turns({name: same(side, rows) for name, side in sides.items()}, options.rounds, progress(f"{rows} rows, round"))
            told = {name: (name.partition(", ")[2], rounds) for name, rounds in found.items()}
            results["rows"][rows] = {name: compared(found[f"patchgrad, {half}"], rounds) for name, (half, rounds) in told.items()}
    if not options.model:
        results["training"] = training(network)
    tell(results)


def compared(ours: Sequence[dict[str, float]], told: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Medians of tokens a CPU-second, and how many times as many we have in the rounds: median, least, most."""
    mine, theirs = ([one["three_turns"] for one in side] for side in (ours, told))
    return medians(told) | {"ratio": over(mine, theirs)}


if __name__ == "__main__":
    main()
