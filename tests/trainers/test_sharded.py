"""A network in rows on several processes is trained as one process trains it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._C._distributed_c10d import TCPStore

from patchgrad.contracts import Trained
from patchgrad.errors import TrainerFault
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import Lora
from patchgrad.testing import check_trainer
from patchgrad.trainers.local import LocalTrainer, Make
from patchgrad.trainers.optimisers import AdamW, Muon
from patchgrad.trainers.sharded.calls import Deadlines, Ready
from patchgrad.trainers.sharded.launching import Launched, here
from patchgrad.trainers.sharded.rank import Spec
from patchgrad.trainers.sharded.trainer import ShardedTrainer
from patchgrad.values import Batch, MicroBatch, StepSettings, floats, ids

CONFIG = DecoderConfig(96, hidden=64, layers=2, heads=4, kv_heads=2, head_size=16, intermediate=96, context=512)
STEP = StepSettings(1e-3)


@pytest.fixture(scope="module")
def two() -> Iterator[Launched]:
    launched = here(2, together=2)
    yield launched
    launched.close()


def _micro_batch(random: np.random.Generator, lengths: list[int], common: int = 30) -> MicroBatch:
    """Sequences that begin alike, with a third of their other tokens trained."""
    start, vocabulary = random.integers(0, CONFIG.vocabulary, common), CONFIG.vocabulary
    tokens = np.concatenate([np.concatenate([start, random.integers(0, vocabulary, length - common)]) for length in lengths])
    starts = np.cumsum([0, *lengths])
    mask = np.zeros(len(tokens), bool)
    for first, last in pairwise(starts.tolist()):
        mask[first + common : last] = random.random(last - first - common) < 0.3
    said = floats(np.where(mask, -3 * random.random(len(tokens)) - 0.01, 0.0))
    advantages = floats(np.where(mask, random.standard_normal(len(tokens)), 0.0))
    positions = np.concatenate([np.arange(length) for length in lengths])
    return MicroBatch(ids(tokens), ids(positions), ids(starts), mask, said, said, said, advantages, floats(mask))


def _batch(*lengths: list[int]) -> Batch:
    random = np.random.default_rng(7)
    micro_batches = tuple(_micro_batch(random, each) for each in lengths)
    return Batch(micro_batches, sum(int(one.mask.sum()) for one in micro_batches), sum(map(len, lengths)))


BATCH = _batch([120, 90, 200], [150, 60], [100, 170], [80], [99, 98, 97])


def _apart(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    assert left.keys() == right.keys()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


@pytest.mark.parametrize("make", [AdamW, Muon])
@pytest.mark.parametrize("tied", [True, False])
def test_ranks_compute_what_as_many_threads_compute_bit_for_bit(two: Launched, make: Make, tied: bool) -> None:
    config = replace(CONFIG, tied=tied)
    local = LocalTrainer(Decoder(config), optimiser=make, threads=2)
    sharded = ShardedTrainer(Decoder(config), two, Spec(config, make))
    for _ in range(2):
        one, other = (trainer.update(BATCH, Clipped(), STEP).metrics for trainer in (local, sharded))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert _apart(local.weights(), sharded.weights()) == 0
    assert all(np.array_equal(a, b) for a, b in zip(local.score(BATCH), sharded.score(BATCH), strict=True))
    assert local.nll_excess(BATCH) == sharded.nll_excess(BATCH)


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, kv_heads=1), replace(CONFIG, tied=False, windows=(40, 0), family="mistral")])
def test_ranks_that_share_a_sequence_compute_the_same_up_to_rounding(two: Launched, config: DecoderConfig) -> None:
    local = LocalTrainer(Decoder(config), optimiser=AdamW)
    shared = ShardedTrainer(Decoder(config), two, Spec(config, AdamW), tokens=100)
    one, other = (trainer.update(BATCH, Clipped(), StepSettings(0.0)).metrics for trainer in (local, shared))
    assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-5)
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
    for a, b in zip(local.score(BATCH), shared.score(BATCH), strict=True):
        assert np.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("tokens", [0, 100])
@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, kv_heads=1), replace(CONFIG, tied=False)])
def test_in_64_bits_ranks_compute_what_one_process_computes_to_twelve_digits(two: Launched, config: DecoderConfig, tokens: int) -> None:
    local = LocalTrainer(Decoder(config).double(), optimiser=AdamW)
    ranks = ShardedTrainer(Decoder(config), two, Spec(config, AdamW, double=True), tokens=tokens)
    for _ in range(2):  # the second gradient is taken where the first step leads
        one, other = (trainer.update(BATCH, Clipped(), STEP).metrics for trainer in (local, ranks))
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-12, abs=0)
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-12, abs=1e-15)


def test_adapters_are_trained_as_one_process_trains_them(two: Launched) -> None:
    lora = Lora(4)
    local = LocalTrainer(Decoder(CONFIG), optimiser=AdamW, threads=2, lora=lora)
    sharded = ShardedTrainer(Decoder(CONFIG), two, Spec(CONFIG, AdamW, lora=lora))
    for _ in range(2):
        one, other = (trainer.update(BATCH, Clipped(), STEP).metrics for trainer in (local, sharded))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert _apart(local.weights(), sharded.weights()) == 0


@pytest.mark.parametrize("lora", [None, Lora(4)])
def test_a_network_beside_the_trained_one_scores_as_one_process_does_and_stays_as_it_is(two: Launched, lora: Lora | None) -> None:
    other = Decoder(CONFIG)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.1)
    alone = LocalTrainer(other, threads=2).score(BATCH)
    trainer = ShardedTrainer(Decoder(CONFIG), two, Spec(CONFIG, AdamW, lora=lora))
    reference = trainer.beside(other)
    for _ in range(2):
        assert all(np.array_equal(a, b) for a, b in zip(alone, reference.score(BATCH), strict=True))
        trainer.update(BATCH, Clipped(), STEP)
    reference.close()
    assert trainer.update(BATCH, Clipped(), STEP).version == 3


def _resident(process: int) -> int:
    """Bytes that a process has resident."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_network_that_was_beside_the_trained_one_takes_no_memory_once_it_is_closed(two: Launched) -> None:
    config = replace(CONFIG, vocabulary=60_000)
    rows, process = 4 * config.vocabulary * config.hidden // 2, two.ranks.hellos[1].process
    trainer = ShardedTrainer(Decoder(config), two, Spec(config, AdamW, gives_back=True))
    trainer.beside(Decoder(config)).close()
    before = _resident(process)
    for _ in range(6):
        trainer.beside(Decoder(config)).close()
    assert _resident(process) - before < 2 * rows
    trainer.close()


@pytest.mark.parametrize("again", [False, True])
def test_sums_as_they_come_and_layers_computed_again_give_the_same_up_to_rounding(two: Launched, again: bool) -> None:
    frozen = ("model.embed_tokens.weight", "model.layers.0.mlp.*")
    local = LocalTrainer(Decoder(CONFIG), optimiser=AdamW, threads=2, frozen=frozen)
    spec = Spec(CONFIG, AdamW, exact=False, gradient_checkpointing=again, frozen=frozen)
    sharded = ShardedTrainer(Decoder(CONFIG), two, spec, tokens=100)
    one, other = (trainer.update(BATCH, Clipped(), STEP).metrics for trainer in (local, sharded))
    assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-5)
    before, after = dict(Decoder(CONFIG).named_parameters()), sharded.weights()
    assert torch.equal(before["model.layers.0.mlp.up_proj.weight"], after["model.layers.0.mlp.up_proj.weight"])
    assert not torch.equal(before["model.layers.1.mlp.up_proj.weight"], after["model.layers.1.mlp.up_proj.weight"])


def test_it_keeps_the_rules_of_a_trainer(two: Launched, tmp_path: Path) -> None:
    check_trainer(lambda: ShardedTrainer(Decoder(CONFIG), two, Spec(CONFIG, Muon)), CONFIG.vocabulary, tmp_path, tolerance=1e-3)


def test_a_checkpoint_of_two_ranks_goes_on_on_three(two: Launched, tmp_path: Path) -> None:
    first = ShardedTrainer(Decoder(CONFIG), two, Spec(CONFIG, Muon))
    first.update(BATCH, Clipped(), STEP)
    first.save(tmp_path)
    first.update(BATCH, Clipped(), STEP)
    three = here(3)
    try:
        second = ShardedTrainer(Decoder(CONFIG, seed=1), three, Spec(CONFIG, Muon))
        second.load(tmp_path)
        assert second.version == 1
        second.update(BATCH, Clipped(), STEP)
        assert _apart(first.weights(), second.weights()) < 1e-5
    finally:
        three.close()


def test_what_holds_still_does_not_move(two: Launched) -> None:
    name = "model.layers.0.self_attn.o_proj.weight"
    held = {name: torch.zeros(CONFIG.hidden, CONFIG.heads * CONFIG.head_size, dtype=torch.bool)}
    held[name][40:50, 3] = True
    trainer = ShardedTrainer(Decoder(CONFIG), two, Spec(CONFIG, Muon, held=held))
    before = trainer.weights()[name]
    trainer.update(BATCH, Clipped(), STEP)
    moved = trainer.weights()[name] != before
    assert not moved[held[name]].any()
    assert moved[~held[name]].any()


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_killed_or_frozen_is_named(kill: signal.Signals) -> None:
    launched = here(2, deadlines=Deadlines(roll=6, silence=6))
    trainer = ShardedTrainer(Decoder(CONFIG), launched, Spec(CONFIG, AdamW))
    os.kill(launched.processes[1].pid, kill)
    with pytest.raises(TrainerFault, match=f"rank 1 of 2 .process {launched.processes[1].pid} on "):
        trainer.update(BATCH, Clipped(), STEP)
    assert [process.poll() is not None for process in launched.processes] == [True, True], "no process is left"


STOPPED = """
import os, signal
from tests.trainers.test_sharded import CONFIG
from patchgrad.networks.decoder import Decoder
from patchgrad.trainers.optimisers import AdamW
from patchgrad.trainers.sharded.launching import here
from patchgrad.trainers.sharded.rank import Spec
from patchgrad.trainers.sharded.trainer import ShardedTrainer

launched = here(1)
rank = launched.processes[0].pid
os.kill(rank, signal.SIGSTOP)
print(rank, flush=True)
ShardedTrainer(Decoder(CONFIG), launched, Spec(CONFIG, AdamW))
"""


def test_a_process_that_is_killed_as_it_hands_weights_to_its_ranks_leaves_none_of_them_in_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as trains:
        assert trains.stdout is not None
        rank, memory = int(trains.stdout.readline()), Path("/dev/shm")
        until(lambda: any(memory.glob(f"patchgrad-{trains.pid}-*/model.safetensors")))
        trains.kill()
        os.kill(rank, signal.SIGKILL)
    until(lambda: not any(memory.glob(f"patchgrad-{trains.pid}-*")))


def until(holds: Callable[[], bool]) -> None:
    """Waits for it, and fails after a minute."""
    last = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < last
        time.sleep(0.05)


def test_a_rank_with_other_weights_is_named_before_anything_waits_for_it() -> None:
    launched = here(2)
    trainer = ShardedTrainer(Decoder(CONFIG), launched, Spec(CONFIG, AdamW))
    ready = Ready(0, ())
    with pytest.raises(TrainerFault, match=r"rank 1 of 2 .* has version 3 of the weights before update, others 4"):
        launched.ranks.agree("update", {0: replace(ready, version=4), 1: replace(ready, version=3)}, [])
    step = Ready(0, ((2, "a"),))
    with pytest.raises(TrainerFault, match=r"rank 1 of 2 .* was given another micro-batch in step 0 of update than rank 0 of 2"):
        launched.ranks.agree("update", {0: step, 1: replace(step, steps=((2, "b"),))}, [[range(2), range(2)]])
    trainer.close()
    launched.close()


def test_ctrl_c_is_left_to_the_process_that_trains() -> None:
    launched = here(2)
    trainer = ShardedTrainer(Decoder(CONFIG), launched, Spec(CONFIG, AdamW))
    for process in launched.processes:
        process.send_signal(signal.SIGINT)
    assert trainer.update(BATCH, Clipped(), STEP).version == 1
    launched.close()
    assert [process.returncode for process in launched.processes] == [0, 0]


def test_an_error_on_a_rank_is_told_and_no_process_is_left() -> None:
    launched = here(2)
    trainer = ShardedTrainer(Decoder(CONFIG), launched, Spec(CONFIG, AdamW))
    with pytest.raises(TrainerFault, match=r"failed on rank . of 2 .* ZeroDivisionError: of the user's own"):
        trainer.update(BATCH, _wrong, STEP)
    assert all(process.poll() is not None for process in launched.processes)


def _wrong(tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
    raise ZeroDivisionError("of the user's own")


def _held(ranks: int) -> list[dict[str, float]]:
    """What each of so many ranks holds that share a sequence (`held_by_ranks.py`)."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-m", "tests.trainers.held_by_ranks"]
    asked = [[*command, *map(str, (rank, ranks, ranks, store.port))] for rank in range(ranks)]
    processes = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in asked]
    return [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]


def test_a_rank_holds_its_part_of_parameters_and_moments_and_of_what_is_kept_for_the_backward_pass() -> None:
    (alone,) = _held(1)
    for ranks in (2, 4):
        for held in _held(ranks):
            assert held["state"] == pytest.approx(alone["state"] / ranks, rel=0.01)
            assert held["activations"] == pytest.approx(alone["activations"] / ranks, rel=0.1)
