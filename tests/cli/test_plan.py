"""`patchgrad plan`: what a recipe takes, told before it starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from patchgrad.cli import main
from patchgrad.runs.planning.calibration import calibrate

SMALL = ("--policy.shape.layers", "2", "--policy.shape.vocabulary", "512")


def test_it_prints_memory_by_part_and_ends_well_where_it_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where no measurement of this machine is kept
    assert main(["plan", "smoke", *SMALL, "--memory", "8GB"]) == 0
    told = capsys.readouterr().out
    for words in (
        "Memory, the most of it in the warm-up:",
        "weights",
        "states of muon",
        "of 8.0 GB free: it fits",
        "Sandboxes: up to 48",
        "--calibrate",
    ):
        assert words in told


def test_what_does_not_fit_ends_with_one_and_the_flags_that_would(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "smoke", *SMALL, "--optimiser.micro_batch_tokens", "65536", "--memory", "2GiB"]) == 1
    told = capsys.readouterr().out
    assert "it does not fit" in told
    assert "It would fit with: --optimiser." in told


def test_a_model_needs_nothing_but_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = {
        "model_type": "qwen3",
        "vocab_size": 1000,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    (tmp_path / "config.json").write_text(json.dumps(shape | {"intermediate_size": 128, "max_position_embeddings": 4096}))
    words = [
        "plan",
        "smoke",
        "--policy.model",
        str(tmp_path),
        "--optimiser.rank",
        "4",
        "--optimiser.frozen",
        "",
        "--memory",
        "8GB",
        "--json",
    ]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fits"]
    assert told["peak"] == sum(part["bytes"] for part in told["parts"])


def test_a_measured_machine_tells_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calibrate(probes=((32,) * 4, (256,)))
    told = []
    for _ in range(2):
        assert main(["plan", "smoke", *SMALL, "--memory", "8GB"]) == 0
        told.append(capsys.readouterr().out.splitlines()[-1])
    assert "Seconds a step of the optimiser" in told[0]
    assert told[0] == told[1]


@pytest.mark.slow
def test_a_machine_is_measured_when_that_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["plan", "smoke", *SMALL, "--memory", "8GB", "--calibrate"]) == 0
    first = capsys.readouterr().out.splitlines()[-1]
    assert "Seconds a step of the optimiser" in first
    assert main(["plan", "smoke", *SMALL, "--memory", "8GB"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == first


def test_an_offloaded_optimiser_is_planned_in_the_host_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "smoke", *SMALL, "--machine.gpus", "1", "--optimiser.offload", "true", "--memory", "8GB", "--host-memory"]
    assert main([*words, "64GB"]) == 0
    assert "for the optimiser, of 64.0 GB free" in capsys.readouterr().out
    assert main([*words, "1MB"]) == 1
    assert "for the optimiser, of 1 MB free" in capsys.readouterr().out


@pytest.mark.parametrize("amount", ["lots", "1.2.3GB", ".", "0", "0.0GB", "-4GB"])
def test_an_amount_that_is_none_is_refused(amount: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "smoke", f"--memory={amount}"]) == 2
    assert f"--memory {amount} is no amount of memory" in capsys.readouterr().err
    assert main(["plan", "smoke", f"--host-memory={amount}"]) == 2
    assert f"--host-memory {amount} is no amount of memory" in capsys.readouterr().err


def test_a_recipe_that_takes_more_gpus_than_its_machines_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--machine.gpus", "2", "--trainer", "sharded", "--trainer.ranks", "4", "--memory", "80GB"]
    assert main(["plan", "smoke", *words]) == 2
    assert "takes 4 GPUs to train and 0 to sample, and is sized for 1 x 2: lower trainer.ranks" in capsys.readouterr().err


def test_each_of_several_gpus_has_its_part_and_the_first_has_the_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "smoke", "--machine.gpus", "4", "--memory", "80GB", "--host-memory", "80GB", "--json"]) == 0
    parts = {part["name"]: part["bytes"] for part in json.loads(capsys.readouterr().out)["parts"]}
    assert {"weights, a 4th", "gradients, a 4th", "the policy's weights, arranged for sampling"} <= parts.keys()
    assert parts["gradients, a 4th"] * 4 > parts["weights, a 4th"] > 0


QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 128,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}
"""What Qwen3-0.6B says of itself on the hub."""


def test_smol_takes_a_qwen3_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3))
    words = ["smol", "--policy.model", str(tmp_path), "--machine.gpus", "1"]
    assert main(["plan", *words, "--memory", "80GB", "--host-memory", "64GB", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    parts = {part["name"]: part["bytes"] for part in told["parts"]}
    assert told["notes"] == [], "it warms the model up"
    assert parts["weights"] == pytest.approx(2 * 596_049_920, rel=0.05), "in bfloat16, and adapters"
    assert parts["states of adamw"] < parts["weights"] / 10, "of adapters alone"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_a_recipe_for_one_says_what_to_do_and_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["smol", "--policy.model", "Qwen/Qwen3-0.6B", "--machine.gpus", "1", "--run", str(tmp_path / "run")]
    assert main(["train", *words]) == 2
    assert "machine.gpus asks for a GPU and torch sees none" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
