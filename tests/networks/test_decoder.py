"""The network against transformers, packed against alone, cached against packed, and its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks import folder
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import BIASES, Decoder, DecoderConfig, Family
from patchgrad.networks.prefixes import apart
from patchgrad.networks.scaling import Yarn
from patchgrad.networks.slots import Cache

torch.set_num_threads(1)  # several test runs may share the cores
LENGTHS = [37, 80, 1, 12]
STARTS = [0, 37, 117, 118, 130]
FAMILIES: list[tuple[Family, int, bool, Yarn | None]] = [
    ("qwen3", 1, True, None),
    ("qwen2", 5, False, None),
    ("llama", 1, True, None),
    ("qwen3", 5, False, None),
    ("qwen2", 1, False, Yarn(4.0, 64)),
    ("qwen3", 1, True, Yarn(2.5, 40, fast=8.0, slow=2.0, attention=1.3)),
]


def network(family: Family = "qwen3", kv_heads: int = 1, tied: bool = True, yarn: Yarn | None = None) -> Decoder:
    """Two layers with every vector away from its neutral value."""
    told: dict[str, Any] = {"family": family, "theta": 50_000.0, "tied": tied, "eos": (2,), "scaling": yarn, "biases": BIASES[family][0]}
    made = Decoder(DecoderConfig(90, 80, 2, 5, kv_heads, 32, intermediate=64, **told), seed=1)
    generator = torch.Generator().manual_seed(2)
    for parameter in made.parameters():
        if parameter.dim() == 1:
            torch.nn.init.uniform_(parameter, 0.5, 1.5, generator=generator)
    return made


def documents() -> list[Tensor]:
    return [torch.randint(0, 90, (length,), generator=torch.Generator().manual_seed(length)) for length in LENGTHS]


def packed(made: Decoder) -> Tensor:
    """Logits of all documents in one pack."""
    with torch.no_grad():
        positions = torch.cat([torch.arange(length) for length in LENGTHS])
        return made.forward_packed(torch.cat(documents()), positions, apart(STARTS).nodes) @ made.head.t()


@pytest.mark.parametrize(("family", "kv_heads", "tied", "yarn"), FAMILIES)
def test_transformers_opens_the_folder_and_computes_the_same(
    tmp_path: Path, family: Family, kv_heads: int, tied: bool, yarn: Yarn | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    transformers = pytest.importorskip("transformers")
    made = network(family, kv_heads, tied, yarn)
    folder.save(tmp_path, made.config, made.state_dict())
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    ours = packed(made)
    with torch.no_grad():
        for document, first, last in zip(documents(), STARTS[:-1], STARTS[1:], strict=True):
            assert torch.allclose(theirs(document[None]).logits[0], ours[first:last], atol=1e-5)


@pytest.mark.parametrize(("family", "kv_heads", "tied", "yarn"), FAMILIES)
def test_the_cached_network_continues_where_the_packed_one_stands(family: Family, kv_heads: int, tied: bool, yarn: Yarn | None) -> None:
    made = network(family, kv_heads, tied, yarn)
    logits, texts = packed(made), documents()
    cached, cache = CachedDecoder(made, 100), Cache(made.config, 3, 100)

    def run(parts: list[tuple[int, int, int]]) -> torch.Tensor:
        """Tokens `[first, last)` of some documents; the logits after the last of each."""
        tokens = np.concatenate([texts[text][first:last].numpy() for text, first, last in parts])
        slots = np.concatenate([np.full(last - first, 2 - text) for text, first, last in parts])
        places = np.concatenate([np.arange(first, last) for _, first, last in parts])
        return cached.run(cache, tokens, slots, places, np.cumsum([last - first for _, first, last in parts]) - 1)

    with torch.inference_mode():
        run([(0, 0, 30), (1, 0, 20)])
        assert torch.allclose(run([(0, 30, 36), (1, 20, 79)]), torch.stack([logits[35], logits[37 + 78]]), atol=1e-5)
        assert torch.allclose(run([(0, 36, 37), (1, 79, 80)]), torch.stack([logits[36], logits[116]]), atol=1e-5)


def test_a_folder_gives_back_every_bit(tmp_path: Path) -> None:
    made = network()
    folder.save(tmp_path, made.config, made.state_dict())
    again = folder.load(tmp_path)
    assert again.config == made.config
    assert all(torch.equal(a, b) for a, b in zip(made.state_dict().values(), again.state_dict().values(), strict=True))


def test_sharded_weights_are_merged(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    made = network()
    folder.save(tmp_path, made.config, made.state_dict())
    state = folder.tensors(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    names = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(state)}
    for shard in set(names.values()):
        save_file({name: state[name] for name in names if names[name] == shard}, tmp_path / shard)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    assert torch.equal(packed(folder.load(tmp_path)), packed(made))


def test_weights_that_could_run_code_are_refused(tmp_path: Path) -> None:
    made = network()
    folder.save(tmp_path, made.config, made.state_dict())
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="no safetensors weights"):
        folder.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "gpt2"}, "choose a checkpoint of llama, mistral, qwen2, qwen3"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "has no low_freq_factor"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 8.0}}, "rotary positions scaled by longrope"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta": 1.0}}, "scaled by yarn with beta"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "scaled by yarn"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 0.5}}, "a factor of at least 1"),
        ({"layer_types": ["full_attention", "chunked_attention"]}, "layer_types .* must name 2 layers"),
        ({"hidden_act": "gelu"}, "other than silu"),
        ({"vocab_size": 91}, "does not match its config.json"),
    ],
)
def test_what_cannot_be_computed_is_refused_in_one_sentence(tmp_path: Path, change: dict[str, object], words: str) -> None:
    made = network()
    folder.save(tmp_path, made.config, made.state_dict())
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(ConfigError, match=words):
        folder.load(tmp_path)


def test_of_a_models_repository_only_its_config_is_fetched_for_its_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    folder.save(tmp_path, network().config, {})
    monkeypatch.setattr(hub, "snapshot_download", None)
    monkeypatch.setattr(hub, "hf_hub_download", lambda name, file: str(tmp_path / file) if name == "some/model" else "")
    assert folder.shape("some/model") == network().config


@pytest.mark.parametrize("source", ["./nowhere", "nowhere", "a/b/c"])
def test_a_missing_folder_is_no_hub_id(source: str) -> None:
    with pytest.raises(ConfigError, match="no model folder"):
        folder.locate(source)


# --- how far a model reads -----------------------------------------------------------------------


def test_a_context_beyond_what_a_model_reads_is_refused_and_yarn_reaches_it(tmp_path: Path) -> None:
    made = Decoder(DecoderConfig(90, 80, 2, 5, 1, 32, intermediate=64, context=32))
    folder.save(tmp_path, made.config, made.state_dict())
    assert folder.load(tmp_path, 32).config.scaling is None
    with pytest.raises(ConfigError, match=r"beyond the 32 positions that the model reads: stretch them by a yarn of 4"):
        folder.load(tmp_path, 100)
    with pytest.raises(ConfigError, match="beyond the 64 positions"):
        folder.load(tmp_path, 100, yarn=2.0)
    stretched = folder.load(tmp_path, 128, yarn=4.0)
    assert stretched.config.scaling == Yarn(4.0, 32)
    folder.save(tmp_path, stretched.config, stretched.state_dict())
    assert folder.load(tmp_path, 128, yarn=4.0).config == stretched.config, "a checkpoint is not stretched twice"
