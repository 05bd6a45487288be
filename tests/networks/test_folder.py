"""A model's folder, read as transformers reads it: weights, rotary positions, ends of a turn. What cannot be read is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from patchgrad.errors import ConfigError
from patchgrad.networks import folder
from patchgrad.networks.decoder import Decoder, DecoderConfig

HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
GONE = object()


def saved(path: Path, *, tied: bool = True, seed: int = 1) -> Decoder:
    made = Decoder(DecoderConfig(40, 32, 2, 2, 1, 16, intermediate=24, tied=tied, context=64, eos=(2,)), seed)
    folder.save(path, made.config, made.state_dict())
    return made


def changed(path: Path, changes: Mapping[str, Any], file: str = "config.json") -> Path:
    """The folder with these keys of a file set, or gone."""
    told = json.loads((path / file).read_text()) | changes
    (path / file).write_text(json.dumps({key: value for key, value in told.items() if value is not GONE}))
    return path


def logits(network: Any, path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Ours and those of transformers for one short text."""
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.float32)
    tokens = torch.arange(3, 33)
    from patchgrad.networks.prefixes import apart

    with torch.no_grad():
        ours = network.logits(network.forward_packed(tokens, torch.arange(30), apart([0, 30]).nodes))
        return ours, theirs(tokens[None]).logits[0]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"])
def test_a_key_that_is_missing_or_null_is_named(tmp_path: Path, key: str) -> None:
    saved(tmp_path)
    for value in (GONE, None):
        with pytest.raises(ConfigError, match=f"config.json has no {key}"):
            folder.load(changed(tmp_path, {key: value}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vocab_size": "40"}, 'vocab_size in .*config.json is "40": it must be a whole number above 0'),
        ({"hidden_size": 32.0}, "hidden_size .* a whole number"),
        ({"num_hidden_layers": True}, "num_hidden_layers .* a whole number"),
        ({"num_key_value_heads": 0}, "num_key_value_heads .* a whole number above 0"),
        ({"head_dim": [16]}, "head_dim .* a whole number"),
        ({"rms_norm_eps": "1e-6"}, "rms_norm_eps .* a number"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps .* a number"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings .* true or false"),
        ({"model_type": ["qwen3"]}, "model_type .* a text"),
        ({"hidden_act": 1}, "hidden_act .* a text"),
        ({"rope_theta": "1e6"}, "rope_theta .* a number"),
        ({"rope_theta": 1.0}, "rope_theta .* above 1"),
        ({"rope_scaling": "yarn"}, "rope_scaling .* an object"),
        ({"rope_parameters": [1]}, "rope_parameters .* an object"),
        ({"rope_scaling": {"rope_type": 3}}, "rope_type .* a text"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": "4"}}, "factor .* a number"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4, "attention_factor": 0.0}}, "attention_factor .* above 0"),
        ({"eos_token_id": "2"}, "eos_token_id .* a token"),
        ({"eos_token_id": [2, True]}, "eos_token_id .* a token"),
        ({"num_hidden_layers": 9_999}, "has not the weights of 9999 layers"),
        ({"num_hidden_layers": 10**9}, "no network has more than 10000"),
        ({"num_hidden_layers": 10**9, "model_type": "mistral"}, "no network has more than 10000"),
        ({"intermediate_size": 2**62}, "matrices that are larger than any"),
        ({"intermediate_size": 10**12}, "does not match its config.json"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "use_sliding_window gives them none"),
        ({"layer_types": [{}]}, "must name 2 layers"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised weights"),
        ({"transformers_weights": "other.safetensors"}, "a file of another name"),
        ({"partial_rotary_factor": 0.5}, "with partial_rotary_factor"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "with full_attention"),
    ],
)
def test_a_key_of_the_wrong_type_or_beyond_the_network_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    saved(tmp_path)
    with pytest.raises(ConfigError, match=words):
        folder.load(changed(tmp_path, change))


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe{}", b"[" * 200_000])
@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_a_file_that_is_no_object_is_named(tmp_path: Path, file: str, content: bytes) -> None:
    saved(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ConfigError, match=f"{file} is not"):
        folder.shape(tmp_path)


def test_what_a_config_leaves_out_is_what_transformers_takes(tmp_path: Path) -> None:
    saved(tmp_path)
    left_out = dict.fromkeys(("head_dim", "rms_norm_eps", "tie_word_embeddings", "max_position_embeddings", "rope_theta"), GONE)
    told = folder.shape(changed(tmp_path, left_out))
    assert (told.head_size, told.epsilon, told.tied, told.context, told.theta) == (128, 1e-6, False, 32_768, 10_000.0)
    told = folder.shape(changed(tmp_path, {"model_type": "llama", "attention_bias": False, "eos_token_id": GONE}))
    assert (told.head_size, told.context) == (16, 2048)


# --- rotary positions ----------------------------------------------------------------------------

YARN = {"rope_type": "yarn", "factor": 4.0}
DEFAULT = {"rope_type": "default", "rope_theta": 1e6}


@pytest.mark.parametrize(
    "change",
    [
        {"rope_parameters": DEFAULT, "rope_theta": GONE},
        {"rope_parameters": DEFAULT, "rope_theta": 5e5},
        {"rope_parameters": DEFAULT, "rope_scaling": YARN | {"rope_theta": 7e4, "original_max_position_embeddings": 16}},
        {"rope_parameters": DEFAULT, "rope_scaling": YARN, "rope_theta": GONE},  # the base of the one that lost is lost too
        {"rope_parameters": DEFAULT, "rope_scaling": YARN, "rope_theta": 5e5},
        {"rope_parameters": YARN | {"rope_theta": 2e4}, "rope_scaling": {}},
        {"rope_parameters": YARN, "rope_scaling": {"rope_type": "default", "factor": 2.0}, "rope_theta": 3e4},
        {"rope_scaling": {"type": "yarn", "factor": 2.0, "beta_fast": 4, "beta_slow": 2}},
        {"rope_scaling": {"factor": 2.0}},
        {"rope_scaling": YARN, "original_max_position_embeddings": 16},
        {"rope_scaling": YARN | {"original_max_position_embeddings": 32}, "original_max_position_embeddings": 16},
        {"rope_scaling": YARN, "max_position_embeddings": GONE},
    ],
)
def test_rotary_positions_are_those_of_transformers(tmp_path: Path, change: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

    saved(tmp_path)
    ours = folder.shape(changed(tmp_path, change))
    theirs = Qwen3RotaryEmbedding(transformers.AutoConfig.from_pretrained(tmp_path))
    assert torch.allclose(ours.frequencies, theirs.inv_freq)
    assert ours.sharpness == pytest.approx(theirs.attention_scaling)


# --- ends of a turn ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "generation", "ends"),
    [
        (2, [2, 3], (2, 3)),
        (None, 5, (5,)),
        ([2, 4], GONE, (2, 4)),
        ([2, 4], None, (2, 4)),
        (2, [3], (3,)),
        ([2, 400], [3, -1, 400], (3,)),
        (GONE, GONE, ()),
    ],
)
def test_a_turn_ends_where_generation_config_says_else_where_config_does(tmp_path: Path, config: Any, generation: Any, ends: Any) -> None:
    saved(tmp_path)
    changed(changed(tmp_path, {"eos_token_id": config}), {"eos_token_id": generation}, "generation_config.json")
    assert folder.load(tmp_path).config.eos == ends


def test_every_end_survives_saving_and_llama_has_one_that_goes_without_saying(tmp_path: Path) -> None:
    saved(tmp_path)
    again = folder.load(changed(tmp_path, {"eos_token_id": [7, 9]}, "generation_config.json"))
    folder.save(tmp_path / "again", again.config, again.state_dict())
    assert folder.shape(tmp_path / "again") == again.config
    (tmp_path / "generation_config.json").unlink()
    assert folder.shape(changed(tmp_path, {"model_type": "llama", "attention_bias": False, "eos_token_id": GONE})).eos == (2,)


# --- weights -------------------------------------------------------------------------------------


def test_one_file_goes_before_an_index_that_was_left_beside_it(tmp_path: Path) -> None:
    made, old = saved(tmp_path), saved(tmp_path / "old", seed=2)
    state = load_file(tmp_path / "old" / "model.safetensors")
    save_file(state, tmp_path / "model-00001-of-00001.safetensors", metadata={"format": "pt"})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(state, "model-00001-of-00001.safetensors")}))
    ours, theirs = logits(folder.load(tmp_path), tmp_path)
    assert torch.allclose(ours, theirs, atol=1e-5)
    index.write_text("{")
    assert torch.equal(folder.load(tmp_path).head, made.head), "an index that is not used cannot be in the way"
    (tmp_path / "model.safetensors").unlink()
    index.write_text(json.dumps({"weight_map": dict.fromkeys(state, "model-00001-of-00001.safetensors")}))
    assert torch.equal(folder.load(tmp_path).head, old.head)


@pytest.mark.parametrize(
    "content", ["{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "../a"}}']
)
def test_an_index_that_names_no_files_of_its_folder_is_refused(tmp_path: Path, content: str) -> None:
    saved(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ConfigError, match="weight_map"):
        folder.load(tmp_path)


def test_of_a_tensor_that_stands_in_two_shards_the_last_counts_and_a_shard_that_is_missing_is_named(tmp_path: Path) -> None:
    state = {name: tensor.clone() for name, tensor in saved(tmp_path).state_dict().items()}
    (tmp_path / "model.safetensors").unlink()
    save_file({**state, EMBEDDING: state[EMBEDDING] * 2}, tmp_path / "model-a.safetensors", metadata={"format": "pt"})
    save_file({EMBEDDING: state[EMBEDDING]}, tmp_path / "model-b.safetensors", metadata={"format": "pt"})
    named = dict.fromkeys(state, "model-b.safetensors") | {"model.norm.weight": "model-a.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": named}))
    ours, theirs = logits(folder.load(tmp_path), tmp_path)
    assert torch.allclose(ours, theirs, atol=1e-5)
    (tmp_path / "model-a.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"lacks model-a\.safetensors"):
        folder.load(tmp_path)


def rewritten(path: Path, **tensors: torch.Tensor) -> None:
    save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("kind", ["differs", "equal", "head only", "apart"])
def test_head_and_embedding_are_one_only_where_their_weights_are(tmp_path: Path, kind: str) -> None:
    state = {name: tensor.clone() for name, tensor in saved(tmp_path, tied=kind != "apart").state_dict().items()}
    if kind == "differs":
        state[HEAD] = state[EMBEDDING] * 1.5
    elif kind == "equal":
        state[HEAD] = state[EMBEDDING].clone()
    elif kind == "head only":
        state[HEAD] = state.pop(EMBEDDING)
    rewritten(tmp_path, **state)
    read = folder.load(tmp_path)
    ours, theirs = logits(read, tmp_path)
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert read.config.tied == (kind in ("equal", "head only"))
    folder.save(tmp_path / "again", read.config, read.state_dict())
    ours, theirs = logits(folder.load(tmp_path / "again"), tmp_path / "again")
    assert torch.allclose(ours, theirs, atol=1e-5), "what was saved is what was read"


def test_a_head_of_another_shape_is_refused_although_the_config_says_that_it_is_the_embedding(tmp_path: Path) -> None:
    state = {name: tensor.clone() for name, tensor in saved(tmp_path).state_dict().items()}
    rewritten(tmp_path, **state, **{HEAD: torch.zeros(41, 32)})
    with pytest.raises(ConfigError, match=r"lm_head\.weight"):
        folder.load(tmp_path)


def test_rotary_frequencies_that_an_older_file_holds_change_nothing_as_in_transformers(tmp_path: Path) -> None:
    state = {name: tensor.clone() for name, tensor in saved(tmp_path, tied=False).state_dict().items()}
    old = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": torch.full((8,), 7.0) for layer in (0, 1)}
    rewritten(tmp_path, **state, **old)
    ours, theirs = logits(folder.load(tmp_path), tmp_path)
    assert torch.allclose(ours, theirs, atol=1e-5)


NORM, DOWN, BIAS = "model.norm.weight", "model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.down_proj.bias"


@pytest.mark.parametrize(
    ("gone", "there", "words"),
    [
        ((NORM,), {}, "config.json: model.norm.weight is missing$"),
        ((NORM, DOWN), {}, f"config.json: {DOWN} and 1 more are missing$"),
        ((), {NORM: torch.ones(33)}, "config.json: model.norm.weight is of another shape$"),
        ((), {BIAS: torch.ones(32)}, f"config.json: {BIAS} is nothing that such a network has$"),
        (
            (NORM,),
            {"norm.weight": torch.ones(32)},
            "config.json: model.norm.weight is missing; norm.weight is nothing that such a network has$",
        ),
    ],
)
def test_tensors_that_are_missing_misshapen_or_too_many_are_told_apart(
    tmp_path: Path, gone: tuple[str, ...], there: dict[str, torch.Tensor], words: str
) -> None:
    state = {name: tensor.clone() for name, tensor in saved(tmp_path).state_dict().items() if name not in gone}
    rewritten(tmp_path, **state | there)
    with pytest.raises(ConfigError, match=words):
        folder.load(tmp_path)


def test_an_adapter_beside_the_weights_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="merge it into the weights"):
        folder.load(tmp_path)
