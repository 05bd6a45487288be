"""Three and four ranks: sums that do not commute, teams of every size, and what is uneven between ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.trainers.test_sharded import BATCH, CONFIG, STEP
from torch import Tensor

from patchgrad.contracts import Trained
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import Lora
from patchgrad.trainers.local import LocalTrainer, Make
from patchgrad.trainers.optimisers import AdamW, Muon
from patchgrad.trainers.sharded.launching import Launched, here
from patchgrad.trainers.sharded.network import rows_of
from patchgrad.trainers.sharded.rank import Spec
from patchgrad.trainers.sharded.trainer import ShardedTrainer
from patchgrad.values import Batch, MicroBatch, StepSettings, floats, ids

UNEVEN = DecoderConfig(97, hidden=16, layers=2, heads=4, kv_heads=1, head_size=4, intermediate=5, context=512)
"""Of the five rows of a matrix between the layers four ranks have 2, 2, 1 and 0; of the four of its keys three ranks have 2, 2 and 0."""

Cluster = Callable[[int], Launched]


@pytest.fixture(scope="module")
def ranks() -> Iterator[Cluster]:
    there: dict[int, Launched] = {}

    def launched(number: int) -> Launched:
        if number not in there:
            there[number] = here(number, together=number)
        return there[number]

    yield launched
    for one in there.values():
        one.close()


def equal(local: LocalTrainer, sharded: ShardedTrainer) -> bool:
    """Have both the same weights, bit for bit?"""
    one, other = local.weights(), sharded.weights()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("number", "make"),
    [(3, AdamW), (4, Muon), pytest.param(3, Muon, marks=pytest.mark.slow), pytest.param(4, AdamW, marks=pytest.mark.slow)],
)
def test_three_and_four_ranks_compute_what_as_many_threads_compute_bit_for_bit(
    ranks: Cluster, number: int, make: Make, tmp_path: Path
) -> None:
    local = LocalTrainer(Decoder(UNEVEN), optimiser=make, threads=number)
    sharded = ShardedTrainer(Decoder(UNEVEN), ranks(number), Spec(UNEVEN, make))
    for _ in range(2):
        one, other = (trainer.update(BATCH, Clipped(), STEP).metrics for trainer in (local, sharded))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}
    sharded.save(tmp_path)
    again = ShardedTrainer(Decoder(UNEVEN, seed=1), ranks(number), Spec(UNEVEN, make))
    again.load(tmp_path)
    for trainer in (local, again):
        trainer.update(BATCH, Clipped(), STEP)
    assert equal(local, again)
    sharded.close()
    again.close()


def test_of_a_matrix_with_fewer_rows_than_it_takes_the_last_rank_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.get_world_size", int)
    assert [rows_of(UNEVEN.intermediate, rank, 4) for rank in range(4)] == [(0, 2), (2, 4), (4, 5), (5, 5)]  # type: ignore[arg-type]
    assert [rows_of(UNEVEN.head_size, rank, 3) for rank in range(3)] == [(0, 2), (2, 4), (4, 4)]  # type: ignore[arg-type]


class Plain:
    """An optimiser that adds the gradient itself, many times: after a step the weights tell it."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._parameters = parameters

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], rate: float, spread: object = map) -> None:
        for name, gradient in gradients.items():
            self._parameters[name].add_(gradient, alpha=rate)

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        pass


def apart(config: DecoderConfig, launched: Launched, batch: Batch, tokens: int) -> float:
    """By how much a parameter's gradient of ranks is another than that of one process, as a part of it, in 64 bits; the worst of all."""
    local = LocalTrainer(Decoder(config).double(), optimiser=Plain, clip=math.inf)
    sharded = ShardedTrainer(Decoder(config), launched, Spec(config, Plain, clip=math.inf, double=True), tokens=tokens)
    begun = {name: weight.clone() for name, weight in local.weights().items()}
    for trainer in (local, sharded):
        trainer.update(batch, Clipped(), StepSettings(1e4))
    one, other = local.weights(), sharded.weights()
    sharded.close()
    assert one.keys() == other.keys() == begun.keys()
    assert all(weight.dtype == torch.float64 for weight in other.values())
    return max(float((one[name] - other[name]).norm() / (one[name] - begun[name]).norm()) for name in one)


@pytest.mark.parametrize("tokens", [100, 210])
@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, kv_heads=1, tied=False, windows=(40, 0), family="mistral")])
def test_each_gradient_of_four_ranks_in_teams_of_four_and_of_two_is_that_of_one_process_to_twelve_digits(
    ranks: Cluster, config: DecoderConfig, tokens: int
) -> None:
    """With 210 tokens to a rank two teams of two work at once; with 100 all four share a sequence, and have copies of two heads."""
    assert apart(config, ranks(4), BATCH, tokens) < 1e-12


@pytest.mark.parametrize("number", [3, 4])
def test_heads_that_a_team_does_not_divide_are_shared_by_fewer_ranks_or_copied(ranks: Cluster, number: int) -> None:
    """Of six heads four ranks make teams of two, and three ranks share all; two key-value heads are copied three times for these."""
    assert apart(replace(CONFIG, heads=6), ranks(number), BATCH, 100) < 1e-12


@pytest.mark.parametrize("trained", [range(190, 200), range(1, 6), [199]], ids=["the last rank's", "the first rank's", "one token"])
def test_tokens_that_are_trained_in_one_rank_s_share_alone_are_trained(ranks: Cluster, trained: range | list[int]) -> None:
    random, length = np.random.default_rng(3), 200
    mask = np.isin(np.arange(length), trained)
    said = floats(np.where(mask, -1.0, 0.0))
    tokens = ids(random.integers(0, CONFIG.vocabulary, length))
    one = MicroBatch(tokens, ids(range(length)), ids([0, length]), mask, said, said, said, floats(mask), floats(mask))
    assert apart(CONFIG, ranks(4), Batch((one,), int(mask.sum()), length), 50) < 1e-12


@pytest.mark.parametrize("lora", [None, pytest.param(Lora(4), marks=pytest.mark.slow)])
def test_in_bfloat16_four_ranks_compute_what_four_threads_compute_bit_for_bit_and_a_team_nearly(ranks: Cluster, lora: Lora | None) -> None:
    local = LocalTrainer(Decoder(CONFIG), optimiser=AdamW, threads=4, precision="bfloat16", lora=lora)
    spec = Spec(CONFIG, AdamW, precision="bfloat16", lora=lora)
    alone, shared = (ShardedTrainer(Decoder(CONFIG), ranks(4), spec, tokens=tokens) for tokens in (0, 100))
    exact = LocalTrainer(Decoder(CONFIG), optimiser=AdamW, lora=lora).score(BATCH)
    said = shared.score(BATCH)
    assert all(np.abs(a - b).max() < 0.1 for a, b in zip(exact, said, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(exact, said, strict=True)), "products are rounded"
    for _ in range(2):
        one, other, near = (trainer.update(BATCH, Clipped(), STEP).metrics for trainer in (local, alone, shared))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert equal(local, alone)
    assert near["grad_norm"] == pytest.approx(one["grad_norm"], rel=0.05)
    for trainer in (alone, shared):
        trainer.close()


def _infinite(tokens: Trained) -> tuple[Tensor, Mapping[str, Tensor]]:
    """An objective whose costs have no bound in the micro-batch of one sequence, which one rank computes."""
    costs, metrics = Clipped()(tokens)
    return costs * (1.0 if int(tokens.sequences.max()) else math.inf), metrics


@pytest.mark.parametrize("exact", [True, False])
def test_a_gradient_that_is_not_finite_on_one_rank_moves_nothing_on_any(ranks: Cluster, exact: bool) -> None:
    local = LocalTrainer(Decoder(CONFIG), optimiser=AdamW, threads=4)
    sharded = ShardedTrainer(Decoder(CONFIG), ranks(4), Spec(CONFIG, AdamW, exact=exact))
    for trainer in (local, sharded):
        update = trainer.update(BATCH, _infinite, STEP)
        assert not math.isfinite(update.metrics["grad_norm"])
        assert update.version == 1
    assert equal(LocalTrainer(Decoder(CONFIG)), sharded), "no rank has made the step"
    for trainer in (local, sharded):
        trainer.update(BATCH, Clipped(), STEP)
    one, other = local.weights(), sharded.weights()
    assert max(float((one[name] - other[name]).abs().max()) for name in one) <= (0 if exact else 1e-6), "nor has its optimiser"
    sharded.close()
