"""What a run takes is known before it starts, and a run that cannot fit does not start."""

from __future__ import annotations

import json
import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from patchgrad.config import override
from patchgrad.errors import ConfigError, OutOfMemory
from patchgrad.networks import products, rounding
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.lora import Lora
from patchgrad.networks.rounding import Precision
from patchgrad.policies.embedded.sampler import Sampler
from patchgrad.recipes import Recipe, laptop, smoke
from patchgrad.recipes.evaluation import Evaluation
from patchgrad.recipes.recipe import SandboxChoice
from patchgrad.runs.api import plan
from patchgrad.runs.build.measured import afforded, opened
from patchgrad.runs.planning.advice import advice, advised, exhausted, settle
from patchgrad.runs.planning.calibration import Speed, seconds, work
from patchgrad.runs.planning.device import device
from patchgrad.runs.planning.estimate import cached, copied, written
from patchgrad.runs.planning.host_memory import free
from patchgrad.runs.planning.plan import size
from patchgrad.runs.planning.rehearsal import Step, rehearse
from patchgrad.runs.planning.shapes import an_optimiser, shape_of
from patchgrad.trainers.local import LocalTrainer

GB = 10**9
MODEL = {
    "model_type": "qwen3",
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "intermediate_size": 128,
    "max_position_embeddings": 4096,
}


def tiny(**changes: str) -> Recipe:
    return override(
        smoke(), {"policy.shape.vocabulary": "512", "policy.shape.layers": "2", "policy.context": "512"} | _contexts(512) | changes
    )


def _contexts(length: int) -> dict[str, str]:
    return {f"{phase}.limits.context": str(length) for phase in ("rft", "stages.0", "stages.1", "evaluation")}


def test_a_plan_adds_up_and_names_the_phase_with_the_most() -> None:
    found = plan(tiny(), room=8 * GB)
    assert found.peak == sum(part.bytes for part in found.parts)
    assert found.phase == "the warm-up"
    assert found.fits
    assert found.sandboxes == 2 * smoke().sandbox.concurrency


def test_what_does_not_fit_is_told_what_would() -> None:
    large = tiny(**{"policy.shape.hidden": "1024", "policy.shape.layers": "8", "optimiser.micro_batch_tokens": "8192"})
    assert not plan(large, room=2 * GB).fits
    changes, then = advice(large, room=2 * GB)
    assert then.fits
    assert changes
    assert plan(override(large, changes), room=2 * GB).fits


def test_a_reference_and_a_server_are_planned_with() -> None:
    plain, pulled = plan(tiny(), room=8 * GB), plan(tiny(**{"stages.0.loss.kl_penalty.weight": "0.1"}), room=8 * GB)
    weights = next(part.bytes for part in plain.parts if part.name == "weights")
    assert pulled.peak - plain.peak == weights
    served = plan(tiny(**{"policy.vllm": "python"}), room=8 * GB)
    assert [part.name for part in served.parts][-1] == "vLLM's server"
    assert not any("policy" in part.name for part in served.parts)
    with pytest.raises(ConfigError, match="gpu-memory-utilization=most; it is a share"):
        plan(tiny(**{"policy.vllm": "python", "policy.options": "gpu-memory-utilization=most", "machine.gpus": "1"}), room=8 * GB)


@pytest.mark.parametrize("changes", [{}, {"optimiser.name": "adamw"}], ids=str)
def test_a_checkpoint_takes_as_much_as_was_planned(tmp_path: Path, changes: dict[str, str]) -> None:
    choice, shape = replace(tiny(**changes).optimiser, frozen=()), DecoderConfig(300, 64, 2, 2, 1, 32, intermediate=128)
    for one, lora in ((choice, None), (replace(choice, offload=True, precision="bfloat16"), None), (replace(choice, rank=4), Lora(4))):
        network = Decoder(shape)
        made_of: dict[str, Any] = {"precision": one.precision, "offload": one.offload, "lora": lora, "base": "a/model"}
        trainer = LocalTrainer(network, optimiser=an_optimiser(one), **made_of)
        folder = tmp_path / f"{one.offload}-{one.rank}"
        trainer.save(folder)
        made = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
        held = rehearse(shape, an_optimiser(one), Step(tokens=64, trained=8, precision=one.precision, offload=one.offload, lora=lora))
        assert written(shape, one, held) == pytest.approx(made, rel=0.15)


def test_advice_says_so_where_nothing_is_enough() -> None:
    _, then = advice(tiny(), room=GB // 10)
    assert not then.fits


def test_a_recipe_that_cannot_fit_is_refused_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    large = tiny(**{"policy.shape.hidden": "1024", "policy.shape.layers": "8", "optimiser.micro_batch_tokens": "8192"})
    settle(tiny())
    monkeypatch.setattr("patchgrad.runs.planning.estimate.free", lambda: 2 * GB)
    with pytest.raises(OutOfMemory, match=r"takes .* GB and 2.0 GB are free. It would fit with --optimiser"):
        settle(large)


def test_memory_is_given_back_at_once_only_where_two_fifths_of_it_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr("patchgrad.runs.planning.advice.give_back", lambda: given.append(True))
    needed = plan(tiny(), room=GB).peak
    for room, often in ((10 * needed, 0), (int(1.5 * needed), 1)):
        monkeypatch.setattr("patchgrad.runs.planning.estimate.free", lambda room=room: room)
        settle(tiny())
        assert len(given) == often


def test_an_allocation_that_fails_ends_with_advice() -> None:
    with pytest.raises(OutOfMemory, match="Memory ran out: the warm-up takes"), advised(tiny()):
        torch.empty(1 << 50)


@pytest.mark.parametrize(
    "said",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB.",
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_a_gpus_libraries_say_it_in_other_words(said: str) -> None:
    with pytest.raises(OutOfMemory, match="Memory ran out"), advised(tiny()):
        raise RuntimeError(said)


def test_what_was_held_is_let_go_before_advice_is_asked_for() -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def work() -> None:
        large = torch.zeros(1000)
        held.append(weakref.ref(large))
        raise MemoryError

    with pytest.raises(OutOfMemory, match="gone"), exhausted(lambda: "still there" if held[0]() is not None else "gone"):
        work()


def test_a_server_beside_the_trainer_on_a_gpu_is_looked_at_however_small_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    monkeypatch.setattr("patchgrad.runs.planning.estimate.spare", lambda: GB)
    served = tiny(**{"policy.vllm": "python", "policy.model": str(tmp_path), "optimiser.frozen": "", "machine.gpus": "1"})
    with pytest.raises(OutOfMemory, match=r"It would fit with --policy.options gpu-memory-utilization=0\.5"):
        settle(served)
    settle(override(served, {"policy.options": "gpu-memory-utilization=0.5"}))


@pytest.mark.parametrize(
    "option",
    ["generation_config=auto", "--seed=3", "logprobs-mode=raw_logits", "override-generation-config.temperature=0.5", "config=x.yaml"],
)
def test_a_server_is_not_told_to_sample_otherwise(option: str) -> None:
    with pytest.raises(ConfigError, match="samples would not be the policy's own"):
        tiny(**{"policy.vllm": "python", "policy.options": option})


def measured(folder: Path) -> Evaluation:
    (folder / "config.json").write_text(json.dumps(MODEL))
    return Evaluation(policy=str(folder), name="it", sandbox=SandboxChoice(concurrency=4))


def test_a_model_that_cannot_fit_is_not_even_read_to_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchgrad.runs.build.measured.free", lambda: 10_000)
    with pytest.raises(OutOfMemory, match="free: take a smaller model"):
        opened(measured(tmp_path))


def test_memory_that_runs_out_while_a_model_is_measured_is_told_with_what_takes_less(tmp_path: Path) -> None:
    with (
        pytest.raises(OutOfMemory, match=r"caches of 8 attempts .* Less is taken with --sandbox.concurrency 2"),
        afforded(measured(tmp_path)),
    ):
        torch.empty(1 << 50)


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="shape"), advised(tiny()):
        torch.zeros(2).view(3)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_policys_bytes_are_those_that_it_has(precision: Precision) -> None:
    recipe = tiny(**{"optimiser.precision": precision})
    shape = shape_of(recipe)
    decoder: Any = CachedDecoder(Decoder(shape), recipe.policy.context, products.supported(precision))
    layers: list[Any] = [getattr(layer, name) for layer in decoder.layers for name in ("qkv", "out", "gate_up", "down")]
    head = decoder.head
    top = [torch.from_numpy(head.matrix), head.rounded.matrix] if products.supported(precision) == "bfloat16" else [head.matrix]
    tensors = [decoder.embedding, *top, *(layer.matrix for layer in layers)]
    assert abs(copied(shape, recipe) / sum(tensor.numel() * tensor.itemsize for tensor in tensors) - 1) < 0.01
    sampler = Sampler(decoder, sessions=2 * recipe.sandbox.concurrency, rows=4, eos=frozenset({0}))
    assert cached(shape, recipe) == sampler.streams.cache.keys.nbytes + sampler.streams.cache.values.nbytes


def test_free_memory_is_what_the_kernel_has_or_a_group_leaves(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:  50 kB\n")
    assert free(tmp_path, tmp_path) == 50 * 1024
    (tmp_path / "memory.max").write_text("30000\n")
    (tmp_path / "memory.current").write_text("10000\n")
    (tmp_path / "memory.stat").write_text("anon 5000\ninactive_file 4000\n")
    assert free(tmp_path, tmp_path) == 24_000, "what is a cache of files can be had"
    (tmp_path / "memory.max").write_text("max\n")
    assert free(tmp_path, tmp_path) == 50 * 1024


@pytest.mark.parametrize("multiplies", [True, False])
def test_seconds_follow_from_the_work_and_the_speed(multiplies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "multiplies_bfloat16", lambda: multiplies)
    recipe, rates = laptop(), {"float32": 1e9, "bfloat16": 4e9}
    told = seconds(recipe, Speed(rates, rates, 1e12, 1e9))
    shape, stage = shape_of(recipe), recipe.stages[0]
    dense, paired = work(
        shape,
        (stage.limits.context,) * stage.loss.minibatch,
        int(0.25 * stage.limits.context * stage.loss.minibatch),
        gradient_checkpointing=False,
    )
    assert set(told) == {"fine-tuning", "stage 1", "stage 2"}
    assert told["stage 1"] > (dense + paired) / 1e9 / recipe.optimiser.threads
    assert told["stage 1"] < 1.2 * (dense + paired) / 1e9 / recipe.optimiser.threads
    plain = seconds(override(recipe, {"optimiser.imitation": "float32"}), Speed(rates, rates, 1e12, 1e9))
    assert plain["stage 1"] == told["stage 1"]
    assert (told["fine-tuning"] < 0.5 * plain["fine-tuning"]) == multiplies


def test_sizes_are_said_for_people() -> None:
    assert (size(3_200_000_000), size(8_000_000)) == ("3.2 GB", "8 MB")


def test_on_a_gpu_caches_take_what_is_left_and_half_a_number_is_two_bytes(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    choices = {"machine.gpus": "1", "policy.model": str(tmp_path), "optimiser.precision": "bfloat16", "optimiser.frozen": ""}
    kept, moved = (plan(tiny(**choices, **{"optimiser.offload": offload}), room=GB) for offload in ("false", "true"))
    assert [part.name for part in moved.parts][-1] == "its caches, of what is left"
    told = {part.name: part.bytes for part in kept.parts}, {part.name: part.bytes for part in moved.parts}
    assert told[1]["weights"] < 0.6 * told[0]["weights"]
    assert told[1]["states of muon"] == 0 < told[0]["states of muon"]
    assert kept.fits
    tight = plan(tiny(**choices), room=kept.peak - kept.parts[-1].bytes // 2)
    assert tight.parts[-1].bytes < kept.parts[-1].bytes
    assert tight.parts[-1].bytes >= cached(shape_of(tiny(**choices)), tiny(**choices)) // (2 * smoke().sandbox.concurrency)


@pytest.mark.parametrize(("own", "then"), [({}, "expandable_segments:True"), ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, None)])
def test_a_gpus_segments_grow_unless_somebody_has_said_otherwise(
    own: dict[str, str], then: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(os, "environ", dict(own))
    device(1)
    assert os.environ.get("PYTORCH_ALLOC_CONF") == then


def test_a_gpu_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="asks for a GPU and torch sees none"):
        plan(tiny(**{"machine.gpus": "1"}))
    with pytest.raises(ConfigError, match=r"optimiser\.offload moves the optimiser from a GPU"):
        tiny(**{"optimiser.offload": "true"})
