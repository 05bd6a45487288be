"""The embedded policy and trainer against transformers on the same network: tokens per CPU-second of one thread.

    python benchmarks/policy.py [--rows 16,64] [--new 20] [--no-peer]

CPU-seconds, because a shared machine's wall clock measures its neighbours. Prints progress, and JSON last.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchgrad.networks import folder
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.objectives.clipped import clipped
from patchgrad.packing import pack
from patchgrad.policies.embedded.sampler import Request, Sampler
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Action, Call, Ids, Observation, Place, Sample, Sampling, Segment, Turn, floats, ids

VOCABULARY = 2048
TURNS = 3
ANSWER = 40  # tokens of an observation


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU-seconds of this process, and what the work returned."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def prompts(rows: int) -> list[Ids]:
    random = np.random.default_rng(rows)
    return [ids(random.integers(3, VOCABULARY, random.integers(200, 600))) for _ in range(rows)]


def ours(network: Decoder, rows: int, new: int) -> dict[str, float]:
    """Three turns of every row: prefill and decode apart, caches kept between turns."""
    random = np.random.default_rng(0)
    sampler = Sampler(CachedDecoder(network, 1024), sessions=rows, rows=rows, eos=frozenset())
    streams, spent = prompts(rows), {"first": 0.0, "later": 0.0, "decode": 0.0}
    for turn in range(TURNS):
        sampler.admit([Request(str(i), s, Sampling(new, seed=100 * i + turn), new) for i, s in enumerate(streams)])

        def read() -> list[Any]:
            finished = []
            while any(sampler.length[slot] == sampler.told[slot] for slot in sampler.live):
                finished += sampler.step()
            return finished

        def decode() -> list[Any]:
            finished = []
            while sampler.live:
                finished += sampler.step()
            return finished

        part, done = seconds(read)
        spent["later" if turn else "first"] += part
        part, finished = seconds(decode)
        spent["decode"] += part
        for drawn in [*done, *finished]:
            observation = random.integers(3, VOCABULARY, ANSWER)
            place = int(drawn.request.session)
            streams[place] = ids(np.concatenate([streams[place], drawn.tokens, observation]))
    first = sum(len(prompt) for prompt in prompts(rows))
    return {
        "prefill": first / spent["first"],
        "prefill_later": rows * (TURNS - 1) * (ANSWER + 1) / spent["later"],
        "decode": rows * TURNS * (new - 1) / spent["decode"],
        "three_turns": rows * TURNS * new / sum(spent.values()),
    }


def theirs(network: Decoder, rows: int, new: int) -> dict[str, float]:
    """The same three turns with `generate`, which runs the whole stream again each turn, left-padded."""
    import transformers

    with tempfile.TemporaryDirectory() as path:
        folder.save(Path(path), network.config, network.state_dict())
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(path)
    streams, spent = prompts(rows), 0.0
    for _ in range(TURNS):
        width = max(map(len, streams))
        inputs = torch.tensor(np.stack([np.pad(s, (width - len(s), 0)) for s in streams]).astype(np.int64))
        mask = torch.tensor(np.stack([np.arange(width) >= width - len(s) for s in streams]).astype(np.int64))

        def generate(inputs: torch.Tensor = inputs, mask: torch.Tensor = mask) -> Any:
            return model.generate(
                inputs, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, do_sample=True, top_k=0, pad_token_id=0
            )

        part, out = seconds(generate)
        spent += part
        streams = [ids(np.concatenate([s, row[width:].numpy(), np.full(ANSWER, 5)])) for s, row in zip(streams, out, strict=True)]
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
            turns.append(Turn(context, action, Call("shell", ""), Observation("", Place()), "", ""))
        samples.append(Sample.of(Segment(tuple(turns)), floats(random.normal(size=120)), np.ones(120, bool), str(number), "0"))
    trainer, batch = LocalTrainer(network), pack(samples, 4096)
    trainer.update(batch, clipped())
    spent, update = seconds(lambda: trainer.update(batch, clipped()))
    return {"training": update.metrics["tokens"] / spent}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="16,64,128")
    parser.add_argument("--new", type=int, default=20)
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    network = Decoder(DecoderConfig(VOCABULARY))
    results: dict[str, Any] = {"parameters": folder.count(network), "tokens_per_cpu_second": {}}
    for rows in map(int, options.rows.split(",")):
        with torch.inference_mode():
            found = {"patchgrad": ours(network, rows, options.new)}
            if not options.no_peer:
                found["transformers"] = theirs(network, rows, options.new)
        print(rows, "rows:", {name: {k: round(v) for k, v in part.items()} for name, part in found.items()}, flush=True)
        results["tokens_per_cpu_second"][f"rows_{rows}"] = found
    results["tokens_per_cpu_second"]["training"] = training(network)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
