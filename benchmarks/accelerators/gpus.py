"""All figures of several GPUs of one machine in one call: shards, shared sequences, publications and replicas.

    python benchmarks/accelerators/gpus.py [--minutes 30] [--parts scaling,together] [--device cuda] [--small] > gpus.json

It takes all GPUs that torch sees: eight are what it was written for. Shapes are those of Qwen3, at random initialisation: speed and
memory do not depend on what weights say. Each part has a process of its own, and keeps what it had found where it is cut off. `--small
--device cpu` takes tiny shapes on four processes of any machine, to see that it runs: its figures mean nothing. JSON comes last.

`scaling` trains the 4b shape whole, a sequence of 32k tokens for each rank, over 1, 2, 4 and 8 ranks: a perfect trainer takes as long for
all. `together` has one sequence of 131k tokens of the 8b shape, which 2, 4 and 8 ranks share. `taken_bytes` is what is taken of each card
after the step, the allocator's reserve included. `publish` writes the 8b shape's weights from all ranks as files, and has a replica on
each card take them over. `replicas` draws 128 tokens for 64 sessions at each of 1, 2, 4 and 8 replicas of the 4b shape. `checkpoint`
saves and opens the 4b shape with its optimiser.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.accelerators.gpu import SHAPES, SMALL, STEP, facts, network
from benchmarks.library.batches import group
from benchmarks.library.pairing import spread
from benchmarks.library.parts import run, so_far

from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.policies.replicas.policy import ReplicatedPolicy
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.recipes import smoke
from patchgrad.runs.build.replicas import replicated
from patchgrad.trainers.optimisers import AdamW
from patchgrad.trainers.sharded.launching import here
from patchgrad.trainers.sharded.rank import Spec
from patchgrad.trainers.sharded.trainer import ShardedTrainer
from patchgrad.values import Sampling, ids

TIMES = 3
FEW = 4  # processes where there are no GPUs
TOKENIZER = ChatTokenizer.train([], 300)


@dataclass(frozen=True)
class Bench:
    """How many devices there are, and whether shapes are tiny."""

    device: str
    small: bool

    @property
    def counts(self) -> list[int]:
        """1, 2, 4 and 8, as far as there are so many."""
        there = torch.cuda.device_count() if self.device == "cuda" else FEW
        return list(takewhile(lambda count: count <= there, (1, 2, 4, 8)))

    def shape(self, name: str, tokens: int) -> DecoderConfig:
        """A shape that reaches so far."""
        shape = replace(SMALL, heads=8) if self.small else SHAPES[name]
        return shape.reaching(tokens, max(1.0, tokens / shape.context))

    def length(self, tokens: int) -> int:
        """So many tokens, or few of a tiny shape."""
        return 800 if self.small else tokens

    @contextmanager
    def trainer(self, shape: DecoderConfig, ranks: int, together: int = 1) -> Iterator[ShardedTrainer]:
        """Of so many ranks, which compute a sequence together, or each its own."""
        launched = here(ranks, "cuda" if self.device == "cuda" else "cpu", together)
        spec = Spec(config=shape, make=AdamW, precision="bfloat16", gradient_checkpointing=True, exact=False)
        tokens = shape.context // together if together > 1 else 0
        made = ShardedTrainer(network(shape, torch.device("cpu")), launched, spec, tokens=tokens)
        try:
            yield made
        finally:
            made.close()
            launched.close()

    @contextmanager
    def replicas(self, shape: DecoderConfig, count: int) -> Iterator[ReplicatedPolicy]:
        """So many, with 64 sessions each, or 8."""
        base = smoke()
        sessions = (8 if self.small else 64) * count
        recipe = replace(
            base,
            policy=replace(base.policy, replicas=count, context=shape.context),
            machine=replace(base.machine, gpus=count if self.device == "cuda" else 0),
            sandbox=replace(base.sandbox, concurrency=sessions),
        )
        policy = replicated(network(shape, torch.device("cpu")), TOKENIZER, recipe)
        try:
            yield policy
        finally:
            policy.close()

    def taken(self) -> list[int]:
        """Bytes that are taken of each card."""
        if self.device != "cuda":
            return []
        asked = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
        return [int(line) << 20 for line in subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()]

    def steps(self, trainer: ShardedTrainer, sequences: int, shape: DecoderConfig, tokens: int) -> dict[str, Any]:
        """Steps of so many sequences, after one that compiles and loads what there is."""
        batch = group(sequences, tokens, 0.0, shape, tokens)
        trainer.update(batch, Clipped(0.2, 0.3), STEP)
        spent = [seconds(lambda: trainer.update(batch, Clipped(0.2, 0.3), STEP)) for _ in range(TIMES)]
        rates = [sequences * tokens / each for each in spent]
        return {"seconds": spread(spent), "tokens_per_second": spread(rates), "taken_bytes": self.taken()}

    def scaling(self) -> dict[str, Any]:
        """A sequence for each rank."""
        found, length = dict[str, Any](), self.length(32_768)
        shape = self.shape("4b", length)
        for count in self.counts:
            with self.trainer(shape, count) as trainer:
                found[str(count)] = self.steps(trainer, count, shape, length)
            so_far(found)
        return found

    def together(self) -> dict[str, Any]:
        """A sequence for all ranks."""
        found, length = dict[str, Any](), self.length(131_072)
        shape = self.shape("8b", length)
        for count in self.counts[1:]:
            with self.trainer(shape, count, count) as trainer:
                found[str(count)] = self.steps(trainer, 1, shape, length)
            so_far(found)
        return found

    def publish(self) -> dict[str, Any]:
        """From the ranks to files, and from files to replicas; once each, after the first time."""
        found, shape, count = dict[str, Any](), self.shape("8b", 8192), self.counts[-1]
        with self.trainer(shape, count) as trainer:
            trainer.weights()
            found["gathered_seconds"] = seconds(trainer.weights)
            weights = trainer.weights()
        found["bytes"] = sum(weight.nbytes for weight in weights.values())
        so_far(found)
        with self.replicas(shape, count) as policy:
            policy.load(weights, 1)
            found["loaded_seconds"] = seconds(partial(policy.load, weights, 2))
        return found

    def draws(self) -> dict[str, Any]:
        """Tokens a second over all replicas, with as many sessions at each."""
        found, shape, new = dict[str, Any](), self.shape("4b", 8192), 8 if self.small else 128
        for count in self.counts:
            with self.replicas(shape, count) as policy:
                each = [drawn_per_second(policy, count * (8 if self.small else 64), new, seed) for seed in range(TIMES + 1)]
            found[str(count)] = {"drawn_per_second": spread(each[1:])}
            so_far(found)
        return found

    def checkpoint(self) -> dict[str, Any]:
        """Written by all ranks, and read by all."""
        shape, count = self.shape("4b", 2048), self.counts[-1]
        folder = Path(tempfile.mkdtemp())
        try:
            with self.trainer(shape, count) as trainer:
                trainer.update(group(count, self.length(2048), 0.0, shape, self.length(2048)), Clipped(0.2, 0.3), STEP)
                saved = seconds(partial(trainer.save, folder))
                size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                return {"saved_seconds": saved, "bytes": size, "opened_seconds": seconds(partial(trainer.load, folder))}
        finally:
            shutil.rmtree(folder)


def seconds(act: Any) -> float:
    """How long it takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def drawn_per_second(policy: ReplicatedPolicy, sessions: int, new: int, seed: int) -> float:
    """All sessions draw at once, behind prompts of 1,000 tokens in groups of eight, or of 50."""
    random = np.random.default_rng(seed)
    prompts = [ids(random.integers(3, 250, min(1000, policy.context // 16))) for _ in range(-(-sessions // 8))]

    async def play() -> int:
        asked = (policy.act(f"{seed} {i}", prompts[i // 8], Sampling(new, seed=1000 * seed + i)) for i in range(sessions))
        return sum(len(action.token_ids) for action in await asyncio.gather(*asked))

    began = time.perf_counter()
    return asyncio.run(play()) / (time.perf_counter() - began)


PARTS = {
    "scaling": Bench.scaling,
    "together": Bench.together,
    "publish": Bench.publish,
    "replicas": Bench.draws,
    "checkpoint": Bench.checkpoint,
}


def _part(name: str, options: argparse.Namespace) -> dict[str, Any]:
    return PARTS[name](Bench(options.device, options.small))


def _facts(device: str) -> dict[str, Any]:
    return {**facts(device), "devices": torch.cuda.device_count() if device == "cuda" else FEW}


if __name__ == "__main__":
    run(__doc__, __file__, {name: partial(_part, name) for name in PARTS}, _facts)
