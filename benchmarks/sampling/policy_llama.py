"""The embedded policy against llama.cpp on the same model: tokens drawn and read per CPU-second of one thread, by precision.

    python benchmarks/sampling/policy_llama.py --bench build/bin/llama-batched-bench --model models/smollm2-135m-instruct
        [--rows 16,32] [--prompt 300] [--new 32] [--rounds 5] [--also OTHER.gguf]

llama.cpp reads the model as GGUF, as `patchgrad models export` writes it; its tool draws for so many streams of as many tokens, which have
nothing in common. Both sides draw by turns in each round. What a side takes to draw is what it takes with all tokens less what it takes
with one, so that nobody's loading counts. With `--also`, llama.cpp draws from other files as well, and is compared with our `bfloat16`,
or with `float32` where the processor does not multiply that. Prints progress, and JSON last.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.command import parser, tell
from benchmarks.library.pairing import by_turns, cpu_seconds, medians, over, progress, same

from patchgrad.models.gguf.exporting import Numbers, file_of
from patchgrad.networks import folder
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.products import supported
from patchgrad.networks.rounding import Precision
from patchgrad.policies.embedded.draws import Request
from patchgrad.policies.embedded.sampler import Sampler
from patchgrad.values import Sampling, ids

NUMBERS: dict[Precision, Numbers] = {"float32": "F32", "bfloat16": "BF16"}


def ours(rows: int, *, network: Decoder, precision: Precision, prompt: int, new: int) -> dict[str, float]:
    """Streams that have nothing in common are read, and each draws so many tokens."""
    random, context = np.random.default_rng(0), prompt + new
    sampler = Sampler(CachedDecoder(network, context, precision), sessions=rows, rows=rows, eos=frozenset())
    streams = [ids(random.integers(3, network.config.vocabulary, prompt)) for _ in range(rows)]
    sampler.admit([Request(str(i), stream, Sampling(new, seed=i), new) for i, stream in enumerate(streams)])

    def until(drawn: int) -> None:
        while sampler.live and any(sampler.streams.length[slot] < prompt + drawn for slot in sampler.live):
            sampler.step()

    read, _ = cpu_seconds(partial(until, 1))
    draw, _ = cpu_seconds(partial(until, new))
    return {"read": rows * prompt / read, "draw": rows * (new - 1) / draw}


def theirs(rows: int, *, bench: Path, model: Path, prompt: int, new: int) -> dict[str, float]:
    """What its own tool takes, as a process on one thread."""

    def taken(read: int, drawn: int) -> float:
        before = sum(os.times()[2:4])
        size = ["-c", str(rows * (prompt + new) + 64), "-b", "2048", "-ub", "512", "-t", "1", "-tb", "1"]
        asked = ["-npp", str(read), "-ntg", str(drawn), "-npl", str(rows)]
        subprocess.run([bench, "-m", model, *size, *asked], check=True, capture_output=True)
        return sum(os.times()[2:4]) - before

    few, less, whole = taken(1, 1), taken(prompt, 1), taken(prompt, new)
    return {"read": rows * (prompt - 1) / (less - few), "draw": rows * (new - 1) / (whole - less)}


def sides(options: Namespace, network: Decoder, written: Path) -> dict[str, Callable[[int], dict[str, float]]]:
    """Everybody by name, told how many rows."""
    size = {"prompt": options.prompt, "new": options.new}
    precisions: list[Precision] = ["float32", "bfloat16"] if supported("bfloat16") == "bfloat16" else ["float32"]
    found: dict[str, Callable[[int], dict[str, float]]] = {}
    models: list[tuple[str, Path]] = [(path.stem, path) for path in options.also]
    for precision in precisions:
        found[f"patchgrad, {precision}"] = partial(ours, network=network, precision=precision, **size)
        file_of(options.model, model := written / f"{precision}.gguf", NUMBERS[precision])
        models.append((precision, model))
    for name, model in models:
        found[f"llama.cpp, {name}"] = partial(theirs, bench=options.bench, model=model, **size)
    return found


def beside(name: str, ours: list[str]) -> str:
    """Who of ours a side is compared with: the same precision, or the quickest."""
    precision = name.partition(", ")[2]
    return next((one for one in ours if one.endswith(precision)), ours[-1])


def main() -> None:
    """Measures and prints."""
    asked = parser(__doc__)
    asked.add_argument("--bench", type=Path, required=True, help="llama.cpp's tool llama-batched-bench")
    asked.add_argument("--model", type=Path, required=True)
    asked.add_argument("--rows", default="16,32")
    asked.add_argument("--prompt", type=int, default=300)
    asked.add_argument("--new", type=int, default=32)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--also", type=Path, nargs="*", default=[])
    options = asked.parse_args()
    torch.set_num_threads(1)
    network = folder.load(options.model, options.prompt + options.new)
    results: dict[str, Any] = {"prompt": options.prompt, "new": options.new, "rows": {}}
    with torch.inference_mode(), tempfile.TemporaryDirectory() as written:
        everybody = sides(options, network, Path(written))
        mine = [name for name in everybody if name.startswith("patchgrad")]
        for name in mine:
            everybody[name](4)  # what is compiled at first
        for rows in map(int, options.rows.split(",")):
            turns = {name: same(side, rows) for name, side in everybody.items()}
            found = by_turns(turns, options.rounds, progress(f"{rows} rows, round"))
            draws = {name: [one["draw"] for one in rounds] for name, rounds in found.items()}
            ratios = {name: over(draws[beside(name, mine)], draws[name]) for name in found}
            results["rows"][rows] = {name: medians(rounds) | {"ratio": ratios[name]} for name, rounds in found.items()}
    tell(results)


if __name__ == "__main__":
    main()
