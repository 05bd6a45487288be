"""Every model of the family is computed as transformers computes it, or refused by name: over configurations, drawn and real."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks import folder
from patchgrad.networks.cached import CachedDecoder
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.paged import PagedCache
from patchgrad.networks.prefixes import together

transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)  # several test runs may share the cores

VOCABULARY, LENGTH, CLOSE = 60, 48, 1e-4
SIZES = {"vocab_size": VOCABULARY, "num_hidden_layers": 2, "intermediate_size": 24, "max_position_embeddings": 64}
Config = dict[str, Any]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")


# --- configurations --------------------------------------------------------------------------------


@st.composite
def ropes(draw: st.DrawFn) -> Config:
    """Keys that stretch positions, where transformers looks for them."""
    factor = draw(st.sampled_from([1.0, 2.0, 4.0, 8]))
    yarn: Config = draw(st.sampled_from(YARNS))
    kinds: dict[str, Config] = {
        "default": {},
        "linear": {"factor": factor},
        "dynamic": {"factor": factor},
        "llama3": {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
        "yarn": {"factor": factor, **yarn},
        "longrope": {"factor": factor, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 16},
    }
    kind = draw(st.sampled_from(sorted(kinds)))
    told = {"rope_type" if draw(st.booleans()) else "type": kind, **kinds[kind]}
    theta: Config = draw(st.sampled_from([{}, {"rope_theta": 500_000.0}, {"rope_theta": 100}]))
    where = draw(st.sampled_from(["rope_scaling", "rope_parameters"]))
    if kind == "default" and draw(st.booleans()):
        return {**theta, "rope_scaling": None}
    return {where: {**told, **theta}} if draw(st.booleans()) else {where: told, **theta}


YARNS: list[Config] = [
    {},
    {"original_max_position_embeddings": 16},
    {"beta_fast": 8, "beta_slow": 2.0, "original_max_position_embeddings": 16},
    {"attention_factor": 1.3},
    {"mscale": 1.0, "mscale_all_dim": 0.7, "original_max_position_embeddings": 16},
    {"mscale": 1.0},
    {"truncate": False, "original_max_position_embeddings": 24},
]


@st.composite
def windows(draw: st.DrawFn, family: str) -> Config:
    """Keys that say how far back layers see, nulls and contradictions among them."""
    size: Config = draw(
        st.sampled_from([{}, {"sliding_window": None}, {"sliding_window": 5}, {"sliding_window": 33}, {"sliding_window": 64}])
    )
    if family in ("llama", "mistral"):
        return size
    told: Config = {**size, "use_sliding_window": draw(st.booleans())}
    more: list[Config] = [
        {},
        {"max_window_layers": 0},
        {"max_window_layers": 1},
        {"layer_types": None},
        {"layer_types": KINDS},
        {"layer_types": KINDS[::-1]},
    ]
    chosen: Config = draw(st.sampled_from(more))
    return told | chosen


KINDS = ["sliding_attention", "full_attention"]


@st.composite
def configurations(draw: st.DrawFn) -> Config:
    """A `config.json` of one of the families, with keys left out and null."""
    family = draw(st.sampled_from(["llama", "mistral", "qwen2", "qwen3"]))
    heads, shared = draw(st.sampled_from([1, 2, 3, 4])), draw(st.sampled_from([1, 2]))
    size = draw(st.sampled_from([4, 6, 8, 16]))
    config = {
        "model_type": family,
        "architectures": [f"{family.capitalize()}ForCausalLM"],
        **SIZES,
        "hidden_size": heads * shared * size,
        "num_attention_heads": heads * shared,
        "num_key_value_heads": draw(st.sampled_from([heads, heads * shared])),
        "head_dim": size if family == "qwen3" else draw(st.sampled_from([size, size * 2])),
        "tie_word_embeddings": draw(st.booleans()),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-5, 1e-3])),
        "attention_bias": draw(st.booleans()),
        "mlp_bias": draw(st.booleans()),
        **draw(ropes()),
        **draw(windows(family)),
        **draw(st.sampled_from([{}, {"eos_token_id": 2}, {"eos_token_id": [2, 4]}])),
    }
    for key in draw(
        st.sets(st.sampled_from(["tie_word_embeddings", "rms_norm_eps", "attention_bias", "mlp_bias", "head_dim"]), max_size=2)
    ):
        del config[key]
    for key in draw(st.sets(st.sampled_from(["num_key_value_heads", "rope_theta", "eos_token_id", "partial_rotary_factor"]), max_size=1)):
        config[key] = None
    return config


# --- equal, or refused -----------------------------------------------------------------------------


STORED = ["one file", "shards", "an index left behind", "a tensor in two shards", "frequencies", "a head of its own", "one too many"]
EXTRA = "model.layers.0.self_attn.q_norm.bias"
ENDS: list[Config | None] = [None, {}, {"eos_token_id": 3}, {"eos_token_id": [3, 5]}, {"eos_token_id": [5, VOCABULARY + 7]}]


def theirs(config: Config, path: Path, stored: str = "one file", ends: Config | None = None) -> Any:
    """A model that transformers reads of a folder with this configuration, its weights drawn and written in one of the ways, and these
    ends of a turn in its `generation_config.json`, if any."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    if ends is not None:
        (path / "generation_config.json").write_text(json.dumps(ends))
    made = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(path), attn_implementation="eager")
    generator = torch.Generator().manual_seed(0)
    for name, parameter in made.named_parameters():
        wide = 2.5 / parameter.shape[-1] ** 0.5 if parameter.dim() == 2 else 0.4  # so that heads look at something
        bounds = (0.5, 1.5) if "norm" in name else (-wide, wide)
        torch.nn.init.uniform_(parameter.data, *bounds, generator=generator)
    tied = made.config.tie_word_embeddings
    state = {name: tensor.clone() for name, tensor in made.state_dict().items() if not (tied and name == "lm_head.weight")}
    store(state, path, stored)
    return transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.float32).eval()


def store(state: dict[str, Tensor], path: Path, stored: str) -> None:
    """Writes the tensors in one of the ways that there are."""
    embedding, other = "model.embed_tokens.weight", {name: tensor * 0.5 for name, tensor in state.items()}
    if stored == "frequencies":
        state = state | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    elif stored == "one too many":
        state = state | {EXTRA: torch.ones(4)}
    elif stored == "a head of its own":
        state = state | {"lm_head.weight": state[embedding] * 1.5}
    names = sorted(state)
    first = {name: state[name] for name in names[: len(names) // 2]}
    if stored == "a tensor in two shards":
        first |= {embedding: other[embedding], names[-1]: other[names[-1]]}
    if stored in ("shards", "a tensor in two shards"):
        split(path, first, {name: state[name] for name in names if name not in first or name in (embedding, names[-1])})
    else:
        save_file(state, path / "model.safetensors", metadata={"format": "pt"})
    if stored == "an index left behind":
        split(path, other)


def split(path: Path, *shards: Mapping[str, Tensor]) -> None:
    """Numbered files and the index that names them; of a tensor in several it names the first."""
    placed: dict[str, str] = {}
    for number, held in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(dict(held), path / name, metadata={"format": "pt"})
        placed = dict.fromkeys(held, name) | placed
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))


def texts() -> list[Tensor]:
    """One that fills the positions, and two that begin as it does and part late."""
    long = torch.randint(0, VOCABULARY, (LENGTH,), generator=torch.Generator().manual_seed(5))
    return [long, torch.cat([long[:40], long[:8].flip(0)]), long[:11]]


def trained(network: Decoder) -> list[Tensor]:
    """Logits as the trainer has them: of a pack whose texts share what they have in common."""
    tokens, starts = torch.cat(texts()), np.cumsum([0, *map(len, texts())]).tolist()
    layout = together(tokens.numpy().astype(np.int32), starts)
    places = torch.cat([torch.arange(len(text)) for text in texts()])[torch.from_numpy(layout.first)]
    with torch.no_grad():
        found = network.logits(network.forward_packed(tokens[torch.from_numpy(layout.first)], places, layout.nodes))
    return list(torch.split(found[torch.from_numpy(layout.place)], [len(text) for text in texts()]))


def sampled(network: Decoder) -> list[Tensor]:
    """Logits as the sampler has them: each text alone, a part at once and the rest token by token."""
    cached, found = CachedDecoder(network, 64), []
    cache = cached.cache(1)
    for text in texts():
        parts = [(0, 7), *((at, at + 1) for at in range(7, len(text)))]
        rows = [
            cached.run(cache, text[a:b].numpy().astype(np.int32), np.zeros(b - a, np.int64), np.arange(a, b), np.arange(b - a))
            for a, b in parts
        ]
        found.append(torch.cat(rows))
    return found


def paged(network: Decoder) -> list[Tensor]:
    """Logits by the pages that a GPU's sampler reads, here on the CPU."""
    cache, found = PagedCache(network.config, 1, 64, 1, torch.device("cpu"), torch.float32), []
    for text in texts():
        cache.cut(0, 0)
        slots, places = np.zeros(len(text), np.int64), np.arange(len(text))
        cache.grow(np.array([0]), np.array([len(text)]))
        with torch.no_grad():
            found.append(network.logits(network.forward(text, torch.arange(len(text)), cache.attending(slots, places))))
    return found


WAYS: list[Callable[[Decoder], list[Tensor]]] = [trained, sampled, paged]


def assert_same(config: Config, path: Path, reference: Any = None) -> None:
    """Ours reads what transformers reads and computes the same in each way, and what ours writes transformers reads as the same."""
    reference = reference or theirs(config, path)
    with torch.no_grad():
        wanted = [reference(text[None]).logits[0] for text in texts()]
    network = folder.load(path, LENGTH)
    for way in WAYS:
        for mine, their in zip(way(network), wanted, strict=True):
            assert torch.allclose(mine, their, atol=CLOSE, rtol=CLOSE), f"{way.__name__}: {(mine - their).abs().max()}"
    folder.save(path / "again", network.config, network.state_dict())
    again = transformers.AutoModelForCausalLM.from_pretrained(path / "again", attn_implementation="eager", dtype=torch.float32)
    with torch.no_grad():
        for text, their in zip(texts(), wanted, strict=True):
            assert torch.allclose(again(text[None]).logits[0], their, atol=CLOSE, rtol=CLOSE), "what was written is another model"
    assert folder.load(path / "again", LENGTH).config == network.config


def culprits(config: Config, stored: str, path: Path) -> list[str]:
    """What there is in a folder that may be refused, by the name that the refusal has to have."""
    told = config.get("rope_scaling") or config.get("rope_parameters") or {}
    slides = config.get("use_sliding_window") and config.get("sliding_window", 1)
    found = ["longrope"] if "longrope" in told.values() else []
    found += ["layer_types"] if "sliding_attention" in (config.get("layer_types") or ()) and not slides else []
    found += [EXTRA] if stored == "one too many" else []
    with suppress(ConfigError):
        positions = folder.shape(path).reach
        found += [f"beyond the {positions} positions"] if positions < LENGTH else []
    return found


def ended(reference: Any) -> tuple[int, ...]:
    """The ends of a turn, among the tokens that there are, of the generation's settings or else of the model's."""
    told = reference.generation_config.eos_token_id
    told = reference.config.eos_token_id if told is None else told
    return tuple(end for end in (told if isinstance(told, list) else [told]) if end is not None and end < VOCABULARY)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(configurations(), st.sampled_from(STORED), st.sampled_from(ENDS))
def test_a_folder_is_computed_as_transformers_does_or_refused_by_name(
    tmp_path: Path, config: Config, stored: str, ends: Config | None
) -> None:
    path = tmp_path / "model"
    try:
        reference = theirs(config, path, stored, ends)
    except Exception as error:  # whatever it raises where it refuses
        event(f"refused by transformers: {type(error).__name__}")
        with suppress(ConfigError):  # there is nothing to compare with
            folder.shape(path)
        return
    try:
        read = folder.load(path, LENGTH).config
    except ConfigError as error:
        refusal = str(error)
    else:
        refusal = ""
        event(f"equal: {stored}")
    if refusal:
        named = [name for name in culprits(config, stored, path) if name in refusal]
        assert named, f"nothing is named that is refused: {refusal}"
        event(f"refused: {named[0]}")
        return
    assert read.eos == ended(reference), "a config's ends count where generation_config names none"
    assert_same(config, path, reference)


PLAIN: Config = {"model_type": "llama", **SIZES, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
EQUAL: dict[str, Config] = {
    "default": {},
    "linear": {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "dynamic": {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "llama3": {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    },
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}},
    "yarn with a sharpness of two": {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5, "original_max_position_embeddings": 16}
    },
    "window in all layers": {"model_type": "mistral", "sliding_window": 9},
    "a window that goes without saying": {"model_type": "mistral", "max_position_embeddings": 64},
    "window in the last layer": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    "window in the first layer": {
        "model_type": "qwen3",
        "use_sliding_window": True,
        "sliding_window": 9,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "biases": {"attention_bias": True, "mlp_bias": True},
    "biases of qwen3": {"model_type": "qwen3", "attention_bias": True},
    "tied": {"tie_word_embeddings": True},
    "one head for all": {"num_key_value_heads": 1},
    "as many heads": {"num_key_value_heads": 4},
    "heads as wide as two": {"head_dim": 16},
    "heads that are not said": {"head_dim": None, "num_key_value_heads": None},
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_models_of_the_family_have_is_computed_and_not_refused(tmp_path: Path, name: str) -> None:
    assert_same(PLAIN | EQUAL[name], tmp_path / "model")


LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}
REAL: dict[str, Config] = {
    "SmolLM2-135M-Instruct": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "hidden_act": "silu",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "is_llama_config": True,
        "max_position_embeddings": 8192,
        "mlp_bias": False,
        "num_attention_heads": 9,
        "num_hidden_layers": 30,
        "num_key_value_heads": 3,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_interleaved": False,
        "rope_scaling": None,
        "rope_theta": 100000,
        "tie_word_embeddings": True,
        "vocab_size": 49152,
    },
    "Qwen2.5-0.5B-Instruct": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "max_position_embeddings": 32768,
        "max_window_layers": 21,
        "num_attention_heads": 14,
        "num_hidden_layers": 24,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "sliding_window": 32768,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "Qwen2.5-72B-Instruct": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": 8192,
        "intermediate_size": 29568,
        "max_position_embeddings": 32768,
        "max_window_layers": 70,
        "num_attention_heads": 64,
        "num_hidden_layers": 80,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "sliding_window": 131072,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "vocab_size": 152064,
    },
    "Qwen3-0.6B": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "max_position_embeddings": 40960,
        "max_window_layers": 28,
        "num_attention_heads": 16,
        "num_hidden_layers": 28,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "vocab_size": 151936,
    },
    "Llama-3.1-8B-Instruct": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "hidden_act": "silu",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 8.0, **LLAMA3},
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "vocab_size": 128256,
    },
    "Llama-3.2-1B-Instruct": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "max_position_embeddings": 131072,
        "mlp_bias": False,
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 32.0, **LLAMA3},
        "rope_theta": 500000.0,
        "tie_word_embeddings": True,
        "vocab_size": 128256,
    },
    "Mistral-7B-Instruct-v0.1": {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "hidden_act": "silu",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "sliding_window": 4096,
        "tie_word_embeddings": False,
        "vocab_size": 32000,
    },
    "Mistral-7B-Instruct-v0.3": {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "hidden_act": "silu",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "max_position_embeddings": 32768,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05,
        "rope_theta": 1000000.0,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "vocab_size": 32768,
    },
}
"""What the models' own `config.json` say on the hub, without the keys of other programs."""


@pytest.mark.parametrize("name", REAL)
def test_a_model_that_people_use_is_computed_at_a_size_that_a_test_can_bear(tmp_path: Path, name: str) -> None:
    """All but the sizes is its own: rotary positions, windows, biases, how many query heads share a key, what is tied."""
    config = REAL[name]
    shared, size = config["num_attention_heads"] // config["num_key_value_heads"], _head_size(config)
    small = {"hidden_size": shared * size, "num_attention_heads": shared, "num_key_value_heads": 1, "intermediate_size": 40}
    assert_same(config | small | {"num_hidden_layers": 2, "vocab_size": VOCABULARY, "head_dim": size}, tmp_path / "model")


@pytest.mark.parametrize("name", REAL)
def test_the_whole_shape_of_a_model_that_people_use_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(REAL[name]))
    told = folder.shape(tmp_path)
    with torch.device("meta"):
        reference = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(tmp_path))
        ours = Decoder(told)
    expected = {n: tuple(p.shape) for n, p in reference.named_parameters() if not (told.tied and n == "lm_head.weight")}
    assert {n: tuple(p.shape) for n, p in ours.named_parameters()} == expected
    assert torch.allclose(told.frequencies, _inverse_frequencies(reference.config), rtol=1e-6)


def _head_size(config: Mapping[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _inverse_frequencies(config: Any) -> Tensor:
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    found: Tensor = LlamaRotaryEmbedding(config).inv_freq
    return found
