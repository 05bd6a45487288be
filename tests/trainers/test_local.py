"""The local trainer: supervised warm-up, schedules, optimisers, and the difference to the policy that sampled."""

from __future__ import annotations

import asyncio
import copy
import gc
import math
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from tests.attempts import alike

from patchgrad.errors import ConfigError, StoreError
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.packing import pack
from patchgrad.networks import rounding
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.folder import load
from patchgrad.networks.lora import Lora
from patchgrad.networks.prefixes import apart
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.runs.planning.shapes import an_optimiser
from patchgrad.testing.trainer import example_batches
from patchgrad.trainers import forward
from patchgrad.trainers import optimisers as muon
from patchgrad.trainers.checkpoint import version_of
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.optimisers import AdamW, orthogonal
from patchgrad.trainers.schedules import constant, cosine
from patchgrad.values import (
    Action,
    Batch,
    Call,
    Message,
    Observation,
    Sample,
    Sampling,
    ScoredSample,
    Segment,
    StepSettings,
    ToolState,
    Turn,
    WeightedSample,
    floats,
    ids,
)

torch.set_num_threads(1)  # several test runs may share the cores
TOKENIZER = ChatTokenizer.train(["print hello", "exit code 0"], 300)
CONFIG = DecoderConfig(TOKENIZER.vocabulary, 40, 2, 5, 1, 8, intermediate=64)
STEP = StepSettings(1e-3)


async def rollout(policy: EmbeddedPolicy, name: str) -> Sample:
    """Three turns, each action worth its own advantage."""
    turns: list[Turn] = []
    stream = ids([])
    previous = None
    for turn in range(3):
        context = policy.encode([Message("user", f"{name} exit code {turn}")], previous)
        stream = ids(np.concatenate([stream, context]))
        previous = await policy.act(name, stream, Sampling(9, seed=len(name) + turn))
        stream = ids(np.concatenate([stream, previous.token_ids]))
        turns.append(Turn(context, previous, Call("shell", ""), Observation("", ToolState()), "state", "parent"))
    segment = Segment(tuple(turns))
    count = len(segment.logprobs())
    return Sample(segment, floats(np.ones(count)), np.ones(count, bool), name, "group")


def sampled(network: Decoder) -> list[Sample]:
    return played(EmbeddedPolicy(network, TOKENIZER, sessions=4, context=300))


def played(policy: EmbeddedPolicy) -> list[Sample]:
    async def play() -> list[Sample]:
        return await asyncio.gather(*[rollout(policy, "s" * (n + 1)) for n in range(4)])

    return asyncio.run(play())


def test_the_trainer_agrees_with_the_policy_that_sampled() -> None:
    network = Decoder(CONFIG)
    trainer = LocalTrainer(network, optimiser="adamw")
    update = trainer.update(pack(alike(sampled(network)), 200), Clipped(), STEP)
    assert update.metrics["logprob_diff"] < 1e-4
    assert update.metrics["ratio"] == pytest.approx(1.0, abs=1e-4)
    assert update.metrics["kl3"] == pytest.approx(0.0, abs=1e-6)
    assert update.metrics["loss"] == pytest.approx(-1.0, abs=1e-3)
    assert 0 < update.metrics["entropy"] < math.log(CONFIG.vocabulary)


def test_the_policy_says_what_it_was_rewarded_for() -> None:
    trainer = LocalTrainer(Decoder(CONFIG))
    batch = pack(alike(sampled(trainer.network)), 500)
    before = trainer.update(batch, cross_entropy, StepSettings(3e-3)).metrics["nll"]
    for _ in range(12):
        after = trainer.update(batch, cross_entropy, StepSettings(3e-3)).metrics["nll"]
    assert after < before - 1


def test_a_masked_turn_has_no_gradient_at_all() -> None:
    network = Decoder(CONFIG, 0)
    drawn = sampled(network)
    start = {name: tensor.clone() for name, tensor in network.state_dict().items()}

    def stepped(masked: bool, advantage: float, moved: float) -> dict[str, torch.Tensor]:
        """The weights after a step in which the second turns say something else."""
        told = []
        for sample in drawn:
            sizes = [len(turn.action.token_ids) for turn in sample.segment.turns]
            second = np.repeat([False, True, False], sizes)
            advantages = floats(np.where(second, advantage, sample.advantages))
            scored = ScoredSample.as_sampled(replace(sample, advantages=advantages, keep=~second if masked else sample.keep))
            told.append(WeightedSample.alike(replace(scored, old=floats(np.where(second, scored.old - moved, scored.old)))))
        network.load_state_dict(start)
        LocalTrainer(network).update(pack(told, 200), Clipped(), STEP)
        return {name: tensor.clone() for name, tensor in network.state_dict().items()}

    def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
        return all(torch.equal(one[name], two[name]) for name in one)

    assert same(stepped(True, 1.0, 0.0), stepped(True, -1000.0, 3.0))
    assert not same(stepped(False, 1.0, 0.0), stepped(False, -1000.0, 3.0))
    assert not same(stepped(True, 1.0, 0.0), start)


def test_warm_up_trains_observations_at_their_weight() -> None:
    samples = alike(sampled(Decoder(CONFIG)))
    plain, warm = pack(samples, 500), pack(samples, 500, context=0.2)
    assert warm.trained == sum(len(p.tokens) - len(p.starts) + 1 for p in warm.micro_batches)
    one, two = (LocalTrainer(Decoder(CONFIG)).update(batch, cross_entropy, STEP).metrics for batch in (plain, warm))
    assert one["loss"] == pytest.approx(one["nll"])
    assert two["loss"] < two["nll"]


def test_the_mean_is_over_the_trained_tokens_of_the_whole_batch() -> None:
    whole, cut = example_batches(CONFIG.vocabulary)
    one, two = (LocalTrainer(Decoder(CONFIG)).update(batch, cross_entropy, STEP).metrics for batch in (whole, cut))
    assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)
    assert one["loss"] == pytest.approx(math.log(CONFIG.vocabulary), rel=0.05)


def attempts_of_one_task() -> list[Sample]:
    """Attempts that begin with the same 300 tokens, which is worth sharing."""
    random = np.random.default_rng(0)
    stem, samples = random.integers(3, 200, 300), []
    for number in range(5):
        turns = []
        for turn in range(2):
            said, drawn = random.integers(3, 200, 20 + 10 * number), random.integers(3, 200, 9)
            action = Action(ids(drawn), floats([-5.0] * 9), 0, "", "stop")
            turns.append(
                Turn(ids(said if turn else np.concatenate([stem, said])), action, Call("shell", ""), Observation("", ToolState()), "", "")
            )
        samples.append(Sample(Segment(tuple(turns)), floats(random.normal(size=18)), np.ones(18, bool), str(number), "0"))
    return samples


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_gradients_added_up_over_packs_workers_and_prefixes_are_those_of_one_pack(threads: int, share: bool) -> None:
    samples = alike(attempts_of_one_task())
    whole, parts = pack(samples, 10_000), pack(samples, 500)
    assert len(parts.micro_batches) > 1 == len(whole.micro_batches)
    alone = LocalTrainer(Decoder(CONFIG).double(), share=False).gradients(whole, Clipped())[0]
    added = LocalTrainer(Decoder(CONFIG).double(), threads=threads, share=share)
    layouts = [added.network.layout(one.tokens, one.starts.tolist()) for one in (*whole.micro_batches, *parts.micro_batches)]
    assert any(node.path for layout in layouts for node in layout.nodes), "some pack is worth sharing in"
    for batch in (whole, parts):
        for name, gradient in added.gradients(batch, Clipped())[0].items():
            torch.testing.assert_close(gradient, alone[name], rtol=1e-10, atol=1e-12)


def test_a_gradient_is_clipped_and_a_broken_one_skipped() -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    trainer = LocalTrainer(Decoder(CONFIG))
    before = {name: tensor.clone() for name, tensor in trainer.weights().items()}
    update = trainer.update(batch, lambda tokens: (tokens.logprobs * math.nan, {}), STEP)
    assert update.metrics["skipped"] == 1.0
    assert all(torch.equal(before[name], tensor) for name, tensor in trainer.weights().items())
    assert trainer.version == 1


def test_bfloat16_is_near_float32() -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    full = LocalTrainer(Decoder(CONFIG)).update(batch, cross_entropy, STEP).metrics
    half = LocalTrainer(Decoder(CONFIG), precision="bfloat16").update(batch, cross_entropy, STEP).metrics
    assert half["loss"] == pytest.approx(full["loss"], rel=1e-2)
    assert half["grad_norm"] == pytest.approx(full["grad_norm"], rel=5e-2)


@pytest.mark.parametrize("multiplies", [True, False])
def test_products_are_rounded_for_a_while_where_the_processor_multiplies_such_numbers(
    multiplies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounding, "multiplies_bfloat16", lambda: multiplies)
    batch, _ = example_batches(CONFIG.vocabulary)
    trainer = LocalTrainer(Decoder(CONFIG))
    full = trainer.gradients(batch, cross_entropy)[0]
    rounded = trainer.gradients(batch, cross_entropy, "bfloat16")[0]
    assert all(gradient.dtype == torch.float32 for gradient in rounded.values())
    same = [torch.equal(rounded[name], full[name]) for name in full]
    assert not all(same) if multiplies else all(same)
    again = trainer.gradients(batch, cross_entropy)[0]
    assert all(torch.equal(again[name], full[name]) for name in full)
    monkeypatch.setattr(forward, "ALIKE", 1)
    bare = trainer.gradients(batch, cross_entropy, "bfloat16")[0]
    for name, gradient in bare.items():
        torch.testing.assert_close(gradient, rounded[name], rtol=0.02, atol=0.02 * float(gradient.abs().max()), msg=name)


def test_imitation_is_no_finer_than_weights_may_be_kept() -> None:
    with pytest.raises(ConfigError, match=r"optimiser\.imitation is float32 and optimiser\.precision bfloat16"):
        Optimiser(precision="bfloat16", imitation="float32")


@pytest.mark.parametrize("multiplies", [True, False])
def test_muon_makes_a_momentum_orthogonal_also_in_rounded_products(multiplies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(muon, "multiplies_bfloat16", lambda: multiplies)
    matrices = torch.randn(3, 24, 60, generator=torch.Generator().manual_seed(0))
    for tall in (matrices, matrices.transpose(-2, -1)):
        made = orthogonal(tall)
        assert made.dtype == torch.float32
        assert made.shape == tall.shape
        values = torch.linalg.svdvals(made)
        assert 0.65 < values.min() <= values.max() < 1.25
    assert orthogonal(matrices.double()).dtype == torch.float64


@pytest.mark.parametrize(("lora", "most"), [(None, 0.01), (Lora(4), 0.02)], ids=["whole", "adapters"])
def test_in_bfloat16_the_sampler_and_the_trainer_stay_near(lora: Lora | None, most: float) -> None:
    """Adapters are added apart where they are trained, and merged where they are drawn from, so that more is rounded otherwise."""
    network = Decoder(CONFIG)
    trainer = LocalTrainer(network, precision="bfloat16", lora=lora)
    with torch.no_grad():  # far from a uniform softmax, where nothing could be apart
        for name, parameter in trainer.network.named_parameters():
            parameter.mul_(8.0 if parameter.dim() == 2 else 1.0)
            if name.endswith("lora_B"):
                parameter.normal_(std=0.05, generator=torch.Generator().manual_seed(0))
    policy = EmbeddedPolicy(network, TOKENIZER, sessions=4, context=300, room=1 << 24, precision="bfloat16")
    policy.load(trainer.weights(), 0)
    batch = pack(alike(played(policy)), 500)
    apart = np.concatenate(
        [np.abs(said - one.sampled)[one.mask] for said, one in zip(trainer.score(batch), batch.micro_batches, strict=True)]
    )
    assert trainer.update(batch, Clipped(), STEP).metrics["entropy"] < 0.95 * math.log(CONFIG.vocabulary)
    assert apart.mean() < most
    assert apart.max() < 20 * most


def test_what_is_computed_again_is_the_same_and_is_not_kept() -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    kept, again = (LocalTrainer(Decoder(CONFIG), gradient_checkpointing=gradient_checkpointing) for gradient_checkpointing in (False, True))
    one, other = (trainer.gradients(batch, cross_entropy)[0] for trainer in (kept, again))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert bytes_kept(gradient_checkpointing=True) < bytes_kept(gradient_checkpointing=False) / 5


def adapted() -> LocalTrainer:
    trainer = LocalTrainer(Decoder(CONFIG), lora=Lora(4))
    with torch.no_grad():  # as if it had been trained: adapters begin as nothing
        for name, parameter in trainer.parameters.items():
            if name.endswith("lora_B"):
                parameter.normal_(std=0.02, generator=torch.Generator().manual_seed(0))
    return trainer


def test_adapters_begin_as_nothing_and_merged_they_are_the_network_that_was_trained(tmp_path: Path) -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    plain, trainer = LocalTrainer(Decoder(CONFIG)), LocalTrainer(Decoder(CONFIG), lora=Lora(4))
    before = {name: parameter.clone() for name, parameter in trainer.network.named_parameters()}
    assert all(np.array_equal(one, other) for one, other in zip(trainer.score(batch), plain.score(batch), strict=True))
    for _ in range(3):
        trainer.update(batch, cross_entropy, StepSettings(1e-2))
    moved = {name for name, parameter in trainer.network.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved == {name for name in before if name.endswith((".lora_A", ".lora_B"))}
    trainer.save(tmp_path)
    opened = LocalTrainer(load(tmp_path))
    for one, other in zip(opened.score(batch), trainer.score(batch), strict=True):
        assert np.allclose(one, other, atol=1e-5)


def test_adapters_of_another_rank_are_refused_and_change_nothing(tmp_path: Path) -> None:
    trainer = adapted()
    LocalTrainer(Decoder(CONFIG), lora=Lora(8)).save(tmp_path)
    before = trainer.weights()
    with pytest.raises(StoreError, match="another rank"):
        trainer.load(tmp_path)
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"torn")
    with pytest.raises(StoreError, match="lacks a whole adapter_model"):
        trainer.load(tmp_path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in trainer.weights().items())


def bytes_kept(gradient_checkpointing: bool) -> int:
    """What a forward pass of 400 tokens keeps for the backward pass."""
    sizes: list[int] = []

    def keep(kept: torch.Tensor) -> torch.Tensor:
        sizes.append(kept.nbytes)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept):
        Decoder(CONFIG).forward_packed(
            torch.zeros(400, dtype=torch.int64), torch.arange(400), apart([0, 400]).nodes, gradient_checkpointing
        )
    return sum(sizes)


def test_an_update_tells_how_far_policies_are_apart() -> None:
    trainer = LocalTrainer(Decoder(CONFIG))
    batch = pack(alike(sampled(Decoder(CONFIG, seed=1))), 500)
    (said,), (whole,) = trainer.score(batch), batch.micro_batches
    old = floats(np.where(whole.mask, whole.sampled - np.arange(len(whole.mask)) % 3 / 4, 0.0))
    found = trainer.update(replace(batch, micro_batches=(replace(whole, old=old),)), cross_entropy, STEP).metrics
    at = whole.mask
    for prefix, above, below in (("", said, old), ("sampler_", old, whole.sampled)):
        difference = (above - below)[at].astype(np.float64)
        ratios = np.exp(difference)
        expected = {
            "ratio": ratios.mean(),
            "ratio_max": ratios.max(),
            "ess": ratios.sum() ** 2 / (len(ratios) * np.square(ratios).sum()),
            "kl1": -difference.mean(),
            "kl3": (ratios - 1 - difference).mean(),
        }
        assert {name: found[prefix + name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert found["logprob_diff"] == pytest.approx(np.abs(said - whole.sampled)[at].mean(), rel=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_measures_add_up_over_packs_and_threads(threads: int) -> None:
    samples = alike(sampled(Decoder(CONFIG, seed=1)))
    one = LocalTrainer(Decoder(CONFIG)).update(pack(samples, 5000), Clipped(), STEP).metrics
    many = LocalTrainer(Decoder(CONFIG), threads=threads).update(pack(samples, 60), Clipped(), STEP).metrics
    for name in ("loss", "logprob_diff", "ratio", "ratio_max", "ess", "kl1", "kl3", "clip_low", "clip_high", "entropy", "sampler_ratio"):
        assert many[name] == pytest.approx(one[name], rel=1e-4, abs=1e-6), name


def test_a_mean_over_tokens_is_bit_for_bit_the_sum_over_their_number() -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    (whole,) = batch.micro_batches
    network = Decoder(CONFIG)
    tokens, positions, at = torch.from_numpy(whole.tokens).long(), torch.from_numpy(whole.positions).long(), whole.mask.nonzero()[0]
    logprobs, _ = network.logprobs(network.forward_packed(tokens, positions, apart(whole.starts.tolist()).nodes, said=at - 1), tokens[at])
    torch.autograd.backward(-(torch.from_numpy(whole.advantages[at]) * logprobs).sum() / batch.trained)
    expected = {name: parameter.grad for name, parameter in network.named_parameters()}
    seen: dict[str, torch.Tensor] = {}

    class Seeing(AdamW):
        def step(self, gradients: Mapping[str, torch.Tensor], rate: float, spread: object = map) -> None:
            seen.update({name: gradient.clone() for name, gradient in gradients.items()})

    LocalTrainer(Decoder(CONFIG), optimiser=Seeing, clip=math.inf).update(batch, cross_entropy, STEP)
    assert all(torch.equal(expected[name], gradient) for name, gradient in seen.items())  # type: ignore[arg-type]
    assert seen.keys() == expected.keys()


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ConfigError, match="without a trained token"):
        LocalTrainer(Decoder(CONFIG)).update(Batch((), 0, 0), cross_entropy, STEP)


def test_a_checkpoint_of_another_kind_is_refused(tmp_path: Path) -> None:
    trainer = LocalTrainer(Decoder(CONFIG), optimiser="adamw")
    with pytest.raises(StoreError, match="no checkpoint"):
        trainer.load(tmp_path)
    trainer.save(tmp_path)
    with pytest.raises(StoreError, match="another optimiser"):
        LocalTrainer(Decoder(CONFIG), optimiser="muon").load(tmp_path)
    with pytest.raises(StoreError, match="another shape"):
        LocalTrainer(Decoder(DecoderConfig(30)), optimiser="adamw").load(tmp_path)
    (tmp_path / "trainer.json").write_text('{"version": ')
    for damaged in (trainer.load, version_of):
        with pytest.raises(StoreError, match=r"lacks a whole trainer\.json"):
            damaged(tmp_path)


def test_schedules_are_their_formulas() -> None:
    assert [constant(1.0, 2)(step) for step in range(3)] == [0.5, 1.0, 1.0]
    wave = cosine(1.0, steps=6, warmup=2, floor=0.1)
    assert [wave(step) for step in (0, 1, 2, 4, 6, 9)] == pytest.approx([0.5, 1.0, 1.0, 0.55, 0.1, 0.1])


def test_each_step_has_the_rate_that_it_is_told() -> None:
    batch, _ = example_batches(CONFIG.vocabulary)
    trainer = LocalTrainer(Decoder(CONFIG))
    assert trainer.update(batch, cross_entropy, STEP).metrics["rate"] == 1e-3
    assert trainer.update(batch, cross_entropy, StepSettings(constant(1.0, warmup=10)(0))).metrics["rate"] == pytest.approx(0.1)


def test_adamw_steps_as_torch_s_own() -> None:
    torch.manual_seed(0)
    own = {"matrix": torch.randn(4, 3), "norm": torch.randn(4)}
    theirs = {name: tensor.clone().requires_grad_() for name, tensor in own.items()}
    decayed = [{"params": [theirs["matrix"]], "weight_decay": 0.1}, {"params": [theirs["norm"]], "weight_decay": 0.0}]
    reference = torch.optim.AdamW(decayed, lr=0.01, betas=(0.9, 0.999), eps=1e-8)
    optimiser = an_optimiser(Optimiser("adamw", betas=(0.9, 0.999), weight_decay=0.1))(own)
    for _ in range(5):
        gradients = {name: torch.randn_like(tensor) for name, tensor in own.items()}
        for name, gradient in gradients.items():
            theirs[name].grad = gradient.clone()
        reference.step()
        optimiser.step(gradients, 0.01)
    for name, tensor in own.items():
        torch.testing.assert_close(tensor, theirs[name].detach(), rtol=1e-5, atol=1e-6)


def test_muon_steps_by_the_same_adamw_what_is_no_matrix() -> None:
    torch.manual_seed(0)
    parameters = {"model.norm.weight": torch.randn(4), "model.layers.0.up.weight": torch.randn(4, 3)}
    alone = {"model.norm.weight": parameters["model.norm.weight"].clone()}
    choice = Optimiser("muon", betas=(0.5, 0.6))
    gradients = {name: torch.randn_like(tensor) for name, tensor in parameters.items()}
    for _ in range(2):
        an_optimiser(choice)(parameters).step(gradients, 0.1)
        an_optimiser(replace(choice, name="adamw"))(alone).step(gradients, 0.1)
    assert torch.equal(parameters["model.norm.weight"], alone["model.norm.weight"])


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_an_optimiser_that_forgot_steps_as_a_new_one_does(optimiser: Literal["muon", "adamw"], tmp_path: Path) -> None:
    first, second = example_batches(CONFIG.vocabulary)
    trainer = LocalTrainer(Decoder(CONFIG), optimiser=optimiser)
    trainer.update(first, cross_entropy, STEP)
    trainer.save(tmp_path)
    fresh = LocalTrainer(load(tmp_path), optimiser=optimiser)
    trainer.reset_optimiser()
    trainer.update(second, cross_entropy, STEP)
    fresh.update(second, cross_entropy, STEP)
    assert all(torch.equal(tensor, fresh.weights()[name]) for name, tensor in trainer.weights().items())


@pytest.mark.parametrize("shape", [(3, 16, 40), (2, 40, 16), (1, 24, 24)])
def test_newton_schulz_brings_singular_values_near_one(shape: tuple[int, int, int]) -> None:
    values = torch.linalg.svdvals(orthogonal(torch.randn(*shape, generator=torch.Generator().manual_seed(0))))
    assert values.min() > 0.3
    assert values.max() < 1.3


class Rows:
    """The first rows of the embedding, held."""

    def __init__(self, network: Decoder, count: int) -> None:
        self.weight = network.model.embed_tokens.weight
        self.count, self.value = count, self.weight[:count].detach().clone()

    def still(self, gradients: Mapping[str, torch.Tensor]) -> None:
        gradients["model.embed_tokens.weight"][: self.count] = 0.0

    @torch.no_grad()
    def restore(self) -> None:
        self.weight[: self.count] = self.value


class Seen:
    """Keeps the gradients of a step, and moves everything."""

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        self.parameters, self.gradients = parameters, dict[str, torch.Tensor]()

    @torch.no_grad()
    def step(self, gradients: Mapping[str, torch.Tensor], rate: float, spread: object = map) -> None:
        self.gradients = {name: gradient.clone() for name, gradient in gradients.items()}
        for parameter in self.parameters.values():
            parameter.add_(1.0)

    def state(self) -> dict[str, torch.Tensor]:
        return {}

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Nothing is kept."""


def test_what_is_held_stays_and_has_no_part_in_the_norm_that_is_clipped() -> None:
    network = Decoder(CONFIG)
    batch, name = pack(alike(sampled(network)), 500), "model.embed_tokens.weight"
    free = LocalTrainer(copy.deepcopy(network), optimiser=Seen, clip=1e9)
    whole = free.update(batch, cross_entropy, STEP).metrics["grad_norm"]
    rows = TOKENIZER.vocabulary // 2
    trainer = LocalTrainer(network, optimiser=Seen, clip=1e-3, held=Rows(network, rows))
    before = network.model.embed_tokens.weight.detach().clone()
    norm = trainer.update(batch, cross_entropy, STEP).metrics["grad_norm"]
    assert isinstance(free.optimiser, Seen)
    assert isinstance(trainer.optimiser, Seen)
    all_of_it, seen = free.optimiser.gradients, trainer.optimiser.gradients
    assert norm**2 == pytest.approx(whole**2 - float(all_of_it[name][:rows].square().sum()), rel=1e-4)
    assert norm < 0.99 * whole
    assert math.sqrt(sum(float(gradient.square().sum()) for gradient in seen.values())) == pytest.approx(1e-3, rel=1e-3)
    assert torch.allclose(seen[name][rows:] * norm * 1e3, all_of_it[name][rows:], rtol=1e-3, atol=1e-7)
    assert torch.equal(network.model.embed_tokens.weight[:rows], before[:rows])
    assert torch.equal(network.model.embed_tokens.weight[rows:], before[rows:] + 1.0)


def test_what_is_frozen_costs_no_gradient_and_never_moves() -> None:
    trainer = LocalTrainer(Decoder(CONFIG), frozen=("model.embed_tokens.weight", "model.layers.0.*"))
    before = {name: weight.clone() for name, weight in trainer.weights().items()}
    batch = pack(alike(sampled(trainer.network)), 500)
    for _ in range(2):
        trainer.update(batch, cross_entropy, StepSettings(3e-3))
    still = {name for name, weight in trainer.weights().items() if torch.equal(weight, before[name])}
    assert still == {name for name in before if name == "model.embed_tokens.weight" or name.startswith("model.layers.0.")}
    assert not any("layers.0." in name or "embed" in name for name in trainer.optimiser.state())
    assert {name for name, p in trainer.network.named_parameters() if not p.requires_grad} == still, "nor is one computed"
    trainer = LocalTrainer(Decoder(CONFIG), frozen=("model.layers.1.*",))
    assert all(p.requires_grad == ("layers.1." not in name) for name, p in trainer.network.named_parameters())


@pytest.mark.parametrize(("patterns", "says"), [(("model.embed",), "no such parameter"), (("*",), "nothing is left to train")])
def test_freezing_nothing_or_everything_is_refused(patterns: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        LocalTrainer(Decoder(CONFIG), frozen=patterns)


def test_a_trainer_that_nobody_has_any_more_holds_no_memory() -> None:
    """A GPU would be full of it until Python looks for cycles."""
    batch, _ = example_batches(CONFIG.vocabulary)
    trainer = LocalTrainer(Decoder(CONFIG), optimiser="adamw")
    trainer.update(batch, cross_entropy, STEP)
    gone = weakref.ref(trainer)
    gc.disable()
    try:
        del trainer
        assert gone() is None
    finally:
        gc.enable()
