"""An optimiser in host memory makes the steps that it would make beside the parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.folder import load
from patchgrad.networks.lora import Lora
from patchgrad.testing.trainer import example_batches
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import StepSettings

CONFIG = DecoderConfig(300, 40, 2, 5, 1, 8, intermediate=64)
STEP, TINY = StepSettings(1e-3), StepSettings(1e-6)
Name = Literal["muon", "adamw"]


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
@pytest.mark.parametrize("lora", [None, Lora(4)], ids=str)
def test_steps_are_the_same_to_the_bit(optimiser: Name, lora: Lora | None) -> None:
    first, second = example_batches(CONFIG.vocabulary)
    sides = [LocalTrainer(Decoder(CONFIG), optimiser=optimiser, lora=lora, offload=offload) for offload in (False, True)]
    for trainer in sides:
        trainer.update(first, cross_entropy, STEP)
        trainer.update(second, cross_entropy, STEP)
    assert all(torch.equal(tensor, sides[1].weights()[name]) for name, tensor in sides[0].weights().items())


def test_in_bfloat16_steps_too_small_for_a_weight_add_up() -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    trainer = LocalTrainer(Decoder(CONFIG), optimiser="adamw", precision="bfloat16", offload=True)
    name = "model.layers.0.mlp.up_proj.weight"
    parameter = trainer.parameters[name]
    assert parameter.dtype == torch.bfloat16
    before, moved = parameter.clone(), []
    for _ in range(40):
        trainer.update(batch, cross_entropy, TINY)
        moved.append(float((parameter != before).float().mean()))
    assert moved[0] < 0.5 < moved[-1] + 0.45
    assert moved[-1] > 3 * moved[0]


def test_what_is_forgotten_is_momentum_and_no_bit_of_a_weight() -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    trainer = LocalTrainer(Decoder(CONFIG), optimiser="adamw", precision="bfloat16", offload=True)
    trainer.update(batch, cross_entropy, TINY)
    before = {name: tensor.clone() for name, tensor in trainer.optimiser.state().items()}
    trainer.reset_optimiser()
    after = trainer.optimiser.state()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items() if name.startswith("copy."))
    assert not any(after[name].any() for name in after if name.startswith("first."))
    frozen = ("model.embed_tokens.weight",)
    later = LocalTrainer(trainer.hand_over(), optimiser="adamw", precision="bfloat16", offload=True, frozen=frozen)
    left = later.optimiser.state()
    assert {name for name in before if name not in left} == {f"{of}.model.embed_tokens.weight" for of in ("copy", "first", "second")}
    assert all(torch.equal(tensor, before[name]) for name, tensor in left.items() if name.startswith("copy."))


@pytest.mark.parametrize(("lora", "offload"), [(Lora(4), False), (None, True), (None, False)])
def test_in_bfloat16_how_surprising_tokens_are_is_told_of_the_same_products(lora: Lora | None, offload: bool) -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    trainer = LocalTrainer(Decoder(CONFIG), precision="bfloat16", lora=lora, offload=offload)
    excess, variance = trainer.nll_excess(batch)
    exact, spread = LocalTrainer(Decoder(CONFIG)).nll_excess(batch)
    assert excess == pytest.approx(exact, abs=0.02 * spread)
    assert variance == pytest.approx(spread, rel=0.05)


def test_a_resumed_step_is_the_same(tmp_path: Path) -> None:
    first, second = example_batches(CONFIG.vocabulary)

    def fresh(network: Decoder) -> LocalTrainer:
        return LocalTrainer(network, precision="bfloat16", offload=True)

    trainer = fresh(Decoder(CONFIG))
    trainer.update(first, cross_entropy, STEP)
    trainer.save(tmp_path)
    resumed = fresh(load(tmp_path))
    resumed.load(tmp_path)
    for one in (trainer, resumed):
        one.update(second, cross_entropy, STEP)
    both = zip(trainer.score(first), resumed.score(first), strict=True)
    assert all(np.array_equal(told, again) for told, again in both)
