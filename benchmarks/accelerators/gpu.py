"""All figures of one GPU in one call: training, memory, long contexts, sampling, and how far sampler and trainer are apart.

    python benchmarks/accelerators/gpu.py [--minutes 9] [--parts train-4b-lora-65k,logprob_diff] [--device cuda] [--small] > gpu.json

Shapes are those of Qwen3, at random initialisation: speed and memory do not depend on what weights say. Each part has a process of its
own, so that one that runs out of memory or of time costs no other; what it had found by then is kept, and what there was no time for is
told. `--small` takes tiny shapes and short streams, to see on any machine that it runs: its figures mean nothing. Prints progress to
stderr, and JSON last.

Training is one sequence a step, 15 % of its tokens drawn, layers computed again in the backward pass, AdamW, bfloat16 products. MFU
counts a forward and a backward pass once, what is computed again not: 6 floating point operations a weight and token, 4 where the
weight is frozen, and attention to the tokens that are seen, over the card's dense bfloat16 peak. `peak_bytes` are those of tensors,
`reserved_bytes` what the allocator had taken for them.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.library.batches import DRAWN, TURN, group
from benchmarks.library.pairing import spread
from benchmarks.library.parts import run, so_far

from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.device import DeviceDecoder
from patchgrad.networks.lora import Lora
from patchgrad.networks.scaling import Yarn
from patchgrad.policies.embedded.draws import Request
from patchgrad.policies.embedded.sampler import Sampler
from patchgrad.runs.planning.calibration import work
from patchgrad.runs.planning.device import device as where
from patchgrad.runs.planning.rehearsal import Step, rehearse
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.optimisers import AdamW
from patchgrad.values import Batch, Ids, MicroBatch, Sampling, StepSettings, floats, ids

QWEN = DecoderConfig(151_936, heads=32, kv_heads=8, head_size=128, theta=1e6, context=40_960)
SHAPES = {
    "0.6b": replace(QWEN, hidden=1024, layers=28, heads=16, intermediate=3072),
    "4b": replace(QWEN, hidden=2560, layers=36, intermediate=9728),
    "8b": replace(QWEN, hidden=4096, layers=36, intermediate=12_288, tied=False),
}
SMALL = DecoderConfig(1000, hidden=64, layers=2, heads=4, kv_heads=2, head_size=16, intermediate=128, context=40_960)
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12, "4090": 165e12}
"""Dense bfloat16 operations a second by the makers' sheets."""
TIMES = 3
SHORT = 2048
STEP = StepSettings(1e-3)


def network(shape: DecoderConfig, device: torch.device, spread: float = 0.02) -> Decoder:
    """Random weights, drawn where they are needed."""
    with torch.device("meta"):
        made = Decoder(shape)
    made.to_empty(device=device)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(1.0) if parameter.dim() == 1 else parameter.normal_(std=spread)
    return made


class Bench:
    """The device, and whether shapes are tiny."""

    def __init__(self, device: str, small: bool) -> None:
        self.device, self.small = where(device == "cuda"), small
        self.cuda = self.device.type == "cuda"

    def shape(self, name: str) -> DecoderConfig:
        return SMALL if self.small else SHAPES[name]

    def length(self, tokens: int) -> int:
        return 800 if self.small else tokens

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def peak(self) -> int:
        """Bytes of tensors at most since it was asked last."""
        if not self.cuda:
            return 0
        most = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return most

    def reserved(self) -> int:
        """Bytes that the allocator has taken at most since `peak` was asked last."""
        return torch.cuda.max_memory_reserved() if self.cuda else 0

    def seconds(self, act: Callable[[], Any], often: int) -> list[float]:
        spent = []
        for _ in range(often):
            self.wait()
            began = time.perf_counter()
            act()
            self.wait()
            spent.append(time.perf_counter() - began)
        return spent

    def train(self, name: str, tokens: int, rank: int = 0, offload: bool = False, often: int = TIMES) -> dict[str, Any]:
        """Steps of one sequence, after one of a short sequence, which compiles and loads what there is."""
        shape, length = self.shape(name), self.length(tokens)
        shape = shape.reaching(length, max(1.0, length / shape.context))
        trainer = self.trainer(shape, rank, offload)
        batch = group(1, length, 0.0, shape, length)
        trainer.update(group(1, min(length, SHORT), 0.0, shape, length), Clipped(0.2, 0.3), STEP)
        self.peak()
        spent = self.seconds(lambda: trainer.update(batch, Clipped(0.2, 0.3), STEP), often)
        passes = 2 if rank else 3
        dense, paired = work(shape, (length,), int(batch.trained), gradient_checkpointing=False, gpu=True)
        operations = 2 * (dense * passes / 3 + paired)
        known = next((peak for card, peak in PEAKS.items() if self.cuda and card in torch.cuda.get_device_name()), None)
        rates = [length / each for each in spent]
        return {
            "tokens": length,
            "tokens_per_second": spread(rates),
            "reserved_bytes": self.reserved(),
            "peak_bytes": self.peak(),
            "mfu": operations / median(spent) / known if known else None,
        }

    def trainer(self, shape: DecoderConfig, rank: int, offload: bool = False) -> LocalTrainer:
        lora = Lora(rank) if rank else None
        made = network(shape, self.device)
        return LocalTrainer(
            made, optimiser="adamw", precision="bfloat16", gradient_checkpointing=True, share=False, lora=lora, offload=offload
        )

    def longest(self) -> dict[str, Any]:
        """The longest context at which 8 billion parameters are trained whole, of those that are tried, optimiser offloaded."""
        failed: dict[str, Any] = {}
        for tokens in (131_072, 98_304, 65_536, 32_768, 16_384):
            with contextlib.suppress(torch.OutOfMemoryError):
                return self.train("8b", tokens, offload=True, often=1) | failed
            failed = so_far({"failed_at": tokens})
            gc.collect()  # what failed lies in cycles, host memory too
            torch.cuda.empty_cache()
        return failed

    def sample(self) -> dict[str, Any]:
        """64 episodes of three turns, eight tasks x 8 attempts, 128 tokens a turn, and a turn's observation of 400."""
        shape, rows, new, told = self.shape("4b"), 8 if self.small else 64, 8 if self.small else 128, {}
        made = network(shape, self.device)
        for side in (self.ours, self.theirs):
            with contextlib.suppress(ImportError):
                told[side.__name__] = rows * 3 * new / side(made, rows, new)
                so_far({"drawn_per_second": told})
        return {"drawn_per_second": told, "ratio": told["ours"] / told["theirs"] if "theirs" in told else None}

    def streams(self, rows: int) -> list[Ids]:
        random = np.random.default_rng(0)
        top = 60 if self.small else 3000
        tasks = [ids(random.integers(3, 900, random.integers(top // 2, top))) for _ in range(rows // 8)]
        return [tasks[row // 8] for row in range(rows)]

    def ours(self, made: Decoder, rows: int, new: int) -> float:
        decoder = DeviceDecoder(made, 8192, 1 << 24 if self.small else 24 << 30, torch.bfloat16)
        with torch.inference_mode():
            for _ in range(2):  # the first warms up
                sampler = Sampler(decoder, sessions=rows, rows=rows, eos=frozenset())
                spent = self.turns(self.streams(rows), partial(drawn, sampler, new=new))
        return spent

    def theirs(self, made: Decoder, rows: int, new: int) -> float:
        from benchmarks.library.generate import continuous, opened

        model = opened(made.to(torch.bfloat16)).to(self.device, torch.bfloat16)
        return min(self.turns(self.streams(rows), lambda streams, _: continuous(model, streams, new)) for _ in range(2))

    def turns(self, streams: list[Ids], ask: Callable[[list[Ids], int], list[Ids]]) -> float:
        spent, observation = 0.0, np.full(20 if self.small else 400, 5)
        for turn in range(3):
            self.wait()
            began = time.perf_counter()
            answers = ask(streams, turn)
            self.wait()
            spent += time.perf_counter() - began
            streams = [ids(np.concatenate([stream, answer, observation])) for stream, answer in zip(streams, answers, strict=True)]
        return spent

    def logprob_diff(self) -> dict[str, Any]:
        """Log-probabilities of the sampler and the trainer for the same 256 drawn tokens behind a long stream, with YaRN."""
        told: dict[str, Any] = {}
        for tokens in (65_536, 131_072):
            length = self.length(tokens)
            shape = replace(self.shape("0.6b"), context=max(length // 4, 256), scaling=Yarn(4.0, max(length // 4, 256)))
            made = network(shape, self.device, spread=0.05)
            trainer = LocalTrainer(made, precision="bfloat16", gradient_checkpointing=True, share=False)
            stream = ids(np.random.default_rng(0).integers(3, 900, length - 300))
            with torch.inference_mode():
                sampler = Sampler(DeviceDecoder(made, length, 64 << 30, torch.bfloat16), sessions=1, rows=1, eos=frozenset())
                sampler.admit([Request("a", stream, Sampling(256, seed=1), 256)])
                done = []
                while sampler.busy:
                    done += sampler.step()
            whole, mask = np.concatenate([stream, done[0].tokens]), np.arange(len(stream) + 256) >= len(stream)
            apart = np.abs(trainer.score(scored(whole, mask))[0][mask] - done[0].logprobs)
            counts, edges = np.histogram(apart, bins=[0, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 1, 100])
            told[str(tokens)] = {
                "mean": float(apart.mean()),
                "most": float(apart.max()),
                "entropy": float(-done[0].logprobs.mean()),
                "histogram": {f"below {edge:g}": int(count) for edge, count in zip(edges[1:], counts, strict=True)},
            }
            so_far(told)
        return told

    def plan(self) -> dict[str, Any]:
        """What the plan says of tensors at most, beside what there were."""
        middle = (
            SMALL if self.small else DecoderConfig(32_000, hidden=1024, layers=6, heads=16, kv_heads=8, head_size=128, intermediate=3072)
        )
        wide = SMALL if self.small else replace(SHAPES["0.6b"], layers=4)
        rows = []
        for shape in (middle, wide):
            for tokens in (4096, 16_384):
                for rank, offload in ((0, False), (16, False), (0, True)):
                    for gradient_checkpointing in (False, True):
                        rows.append(self.point(shape, self.length(tokens), rank, offload, gradient_checkpointing))
                        told = so_far(compared(rows))
        return told

    def point(self, shape: DecoderConfig, tokens: int, rank: int, offload: bool, gradient_checkpointing: bool) -> dict[str, Any]:
        lora = Lora(rank) if rank else None
        step = Step(
            tokens=tokens,
            trained=tokens // TURN * DRAWN,
            precision="bfloat16",
            gradient_checkpointing=gradient_checkpointing,
            lora=lora,
            offload=offload,
            fused=self.cuda,
        )
        said = rehearse(shape, AdamW, step).peak(several=False)
        trainer = LocalTrainer(
            network(shape, self.device),
            optimiser="adamw",
            precision="bfloat16",
            gradient_checkpointing=gradient_checkpointing,
            share=False,
            lora=lora,
            offload=offload,
        )
        batch = group(1, tokens, 0.0, shape, tokens)
        self.peak()
        trainer.update(batch, Clipped(), STEP)
        seen = self.peak()
        point = {
            "shape": asdict(shape),
            "tokens": tokens,
            "rank": rank,
            "offload": offload,
            "gradient_checkpointing": gradient_checkpointing,
        }
        return {**point, "planned": said, "seen": seen, "error": said / seen - 1 if seen else None}


def compared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Points, and how far what was planned is from what was seen."""
    errors = [abs(row["error"]) for row in rows if row["error"] is not None]
    return {"points": rows, "error": spread(errors) if errors else None}


def drawn(sampler: Sampler, streams: list[Ids], turn: int, new: int) -> list[Ids]:
    """The answers to these streams, by our sampler."""
    sampler.admit([Request(str(i), stream, Sampling(new, seed=100 * i + turn), new) for i, stream in enumerate(streams)])
    found: dict[int, Ids] = {}
    while sampler.busy:
        found |= {int(one.request.session): one.tokens for one in sampler.step()}
    return [found[i] for i in range(len(streams))]


def scored(tokens: Any, mask: Any) -> Batch:
    """One sequence of which some tokens are to be scored."""
    zeros = floats(np.zeros(len(tokens)))
    pack = MicroBatch(ids(tokens), ids(np.arange(len(tokens))), ids(np.array([0, len(tokens)])), mask, zeros, zeros, zeros, zeros, zeros)
    return Batch((pack,), int(mask.sum()), 1)


PARTS: dict[str, Callable[[Bench], dict[str, Any]]] = {
    "train-4b-lora-65k": lambda bench: bench.train("4b", 65_536, rank=16),
    "train-0.6b-full-65k": lambda bench: bench.train("0.6b", 65_536),
    "plan": Bench.plan,
    "sample-4b": Bench.sample,
    "train-4b-lora-131k": lambda bench: bench.train("4b", 131_072, rank=16, often=1),
    "logprob_diff": Bench.logprob_diff,
    "train-8b-lora-131k": lambda bench: bench.train("8b", 131_072, rank=16, often=1),
    "longest-8b-full": Bench.longest,
}


def _part(name: str, options: argparse.Namespace) -> dict[str, Any]:
    return PARTS[name](Bench(options.device, options.small))


def facts(device: str) -> dict[str, Any]:
    """The card and its torch."""
    card = torch.cuda.get_device_name() if device == "cuda" and torch.cuda.is_available() else device
    return {"device": card, "torch": torch.__version__}


if __name__ == "__main__":
    run(__doc__, __file__, {name: partial(_part, name) for name in PARTS}, facts)
