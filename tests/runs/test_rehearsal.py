"""A step on tensors without data says what a step with data holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import Lora, adapt
from patchgrad.runs.planning.rehearsal import WORKSPACES, Alive, Footprint, Step, _kernel, _rehearsed, passed, rehearse, spoken
from patchgrad.trainers.frozen import trainable
from patchgrad.trainers.optimisers import AdamW, Muon

SHAPE = DecoderConfig(512, hidden=64, layers=3, heads=2, kv_heads=1, head_size=32, intermediate=128)


def test_weights_states_and_gradients_are_four_bytes_a_parameter_each_and_adamw_has_two_states() -> None:
    told = rehearse(SHAPE, AdamW, Step(tokens=256, trained=64))
    count = sum(parameter.numel() for parameter in Decoder(SHAPE).parameters())
    assert (told.weights, told.states, told.gradients) == (4 * count, 8 * count, 4 * count)


def test_muon_has_one_state_where_adamw_has_two() -> None:
    assert rehearse(SHAPE, Muon, Step(tokens=64, trained=16)).states < rehearse(SHAPE, AdamW, Step(tokens=64, trained=16)).states


def test_nothing_is_allocated_that_a_real_pass_does_not_allocate() -> None:
    """The same count over tensors with data: what is rehearsed is what happens."""
    with Alive() as alive:
        network = Decoder(SHAPE)
        before = alive.most = alive.bytes
        gradients = passed(network, dict(network.named_parameters()), (300,), Step(300, 100))
    assert gradients
    assert abs(rehearse(SHAPE, AdamW, Step(tokens=300, trained=100)).passing - (alive.most - before)) < 0.02 * (alive.most - before)


@pytest.mark.parametrize("vocabulary", [512, 20_000])
@pytest.mark.parametrize("tokens", [64, 1000])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("lora", [None, Lora(2)])
def test_many_layers_hold_most_at_another_moment_than_a_few(vocabulary: int, tokens: int, again: bool, lora: Lora | None) -> None:
    """With a large vocabulary few layers hold most at the end of the backward pass, and many where it begins."""
    shape, step = replace(SHAPE, vocabulary=vocabulary, layers=24), Step(tokens, tokens // 8, gradient_checkpointing=again, lora=lora)
    told, whole = rehearse(shape, AdamW, step), _rehearsed(shape, step, AdamW)
    assert told.passing == pytest.approx(max(whole["beginning"], whole["ending"]), rel=0.01)
    assert (told.weights, told.gradients) == (whole["weights"], whole["gradients"])


def test_layers_that_are_computed_again_hold_less() -> None:
    shape = replace(SHAPE, layers=12)
    kept, again = (
        rehearse(shape, AdamW, Step(tokens=512, trained=64, gradient_checkpointing=gradient_checkpointing))
        for gradient_checkpointing in (False, True)
    )
    assert again.passing < 0.6 * kept.passing
    assert again.weights == kept.weights


def test_a_fused_kernel_holds_what_it_is_given_and_what_it_gives_and_repeats_no_keys_in_half_precision() -> None:
    shape = replace(SHAPE, layers=1, heads=8, kv_heads=1, family="llama", hidden=256)
    blocks, fused = (rehearse(shape, AdamW, Step(tokens=512, trained=512, precision="bfloat16", fused=fused)) for fused in (False, True))
    repeated = 2 * 512 * 8 * 32 * 2  # keys and values of eight heads, of which one is there already
    assert blocks.passing - (fused.passing - WORKSPACES) >= repeated * 7 // 8
    with Alive() as alive:
        q, k, v = (torch.zeros(100, heads, 32, dtype=torch.bfloat16, requires_grad=True) for heads in (8, 1, 1))
        given = alive.bytes
        out = _kernel(0, q, k, v)
        assert alive.bytes - given == out.nbytes + 4 * 100 * 8, "means, and a sum of exponentials for each query and head"


@given(st.integers(1, 500), st.data())
def test_so_many_tokens_are_spoken_in_runs_apart(tokens: int, data: st.DataObject) -> None:
    trained = data.draw(st.integers(1, tokens))
    rows = spoken(tokens, trained)
    assert len(rows) == trained
    assert (np.diff(rows) > 0).all()
    assert rows[-1] == tokens - 1
    assert rows[0] >= 0


def test_what_is_not_trained_costs_a_last_layer_that_is_as_much_smaller() -> None:
    few, all_ = (rehearse(SHAPE, AdamW, Step(tokens=512, trained=trained)) for trained in (64, 512))
    assert few.passing < 0.8 * all_.passing
    assert few.weights == all_.weights


def test_adapters_have_small_states_and_gradients() -> None:
    whole, adapted = (rehearse(SHAPE, AdamW, Step(tokens=64, trained=16, lora=lora)) for lora in (None, Lora(2)))
    assert adapted.states < 0.2 * whole.states
    assert adapted.gradients < 0.2 * whole.gradients


def test_what_is_frozen_has_neither_states_nor_gradients() -> None:
    held = rehearse(SHAPE, AdamW, Step(tokens=64, trained=16, frozen=("model.layers.*", "model.embed_tokens.weight")))
    assert held.states == 8 * SHAPE.hidden == 2 * held.gradients  # the last norm's


def test_a_few_layers_tell_what_many_hold() -> None:
    deep = replace(SHAPE, layers=8)
    guessed, whole = rehearse(deep, AdamW, Step(tokens=256, trained=32)), Footprint(*_whole(deep))
    for name in ("weights", "states", "gradients"):
        assert getattr(guessed, name) == getattr(whole, name)
    assert abs(guessed.passing / whole.passing - 1) < 0.01


@pytest.mark.parametrize("frozen", [7, 2, 14])
def test_of_layers_of_which_some_are_frozen_a_few_of_each_kind_tell_what_all_hold(frozen: int) -> None:
    deep, still = replace(SHAPE, layers=15), tuple(f"model.layers.{layer}.*" for layer in range(frozen))
    guessed = rehearse(deep, AdamW, Step(tokens=256, trained=32, lora=Lora(2), frozen=still))
    whole = Footprint(*_whole(deep, Lora(2), still))
    for name in ("weights", "states", "gradients"):
        assert getattr(guessed, name) == getattr(whole, name)
    assert abs(guessed.passing / whole.passing - 1) < 0.02


def _whole(shape: DecoderConfig, lora: Lora | None = None, frozen: tuple[str, ...] = ()) -> tuple[int, int, int, int, int]:
    with Alive() as alive:
        network = adapt(Decoder(shape), lora) if lora else Decoder(shape)
        parameters = trainable(network, frozen)
        weights = alive.bytes
        steps = AdamW(parameters)
        states = alive.bytes - weights
        before = alive.most = alive.bytes
        gradients = passed(network, parameters, (256,), Step(256, 32))
        return weights, states, sum(4 * gradient.numel() for gradient in gradients.values()), alive.most - before, steps.steps


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 2000), min_size=1, max_size=8), st.data())
def test_what_is_alive_is_the_sum_of_what_was_made_and_not_dropped(sizes: list[int], data: st.DataObject) -> None:
    with Alive() as alive:
        made = [torch.zeros(size) for size in sizes]
        views = [tensor[:1] for tensor in made]
        assert alive.bytes == 4 * sum(sizes)
        dropped = data.draw(st.integers(0, len(made) - 1))
        made[dropped] = views[dropped] = torch.Tensor()
        assert alive.bytes == 4 * (sum(sizes) - sizes[dropped])
        assert alive.most == 4 * sum(sizes)


def test_peak_counts_each_workers_pack_and_the_gradients_of_its_packs_before() -> None:
    told = Footprint(weights=10, states=20, gradients=10, passing=50, stepping=5)
    assert (told.peak(), told.peak(2), told.peak(several=False)) == (90, 150, 80)


def test_on_a_gpu_a_norms_weight_is_trained_at_no_cost_of_memory() -> None:
    step = Step(tokens=512, trained=64, precision="bfloat16", fused=True)
    trained, frozen = (rehearse(SHAPE, AdamW, replace(step, frozen=names)) for names in ((), ("*norm.weight",)))
    assert trained.passing - frozen.passing <= trained.gradients - frozen.gradients
