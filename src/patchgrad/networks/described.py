"""A network's shape as the `config.json` of transformers tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from patchgrad.errors import ConfigError
from patchgrad.networks import rope
from patchgrad.networks.decoder import DecoderConfig, Family
from patchgrad.networks.settings import Settings

ARCHITECTURES: Mapping[str, str] = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
POSITIONS: Mapping[Family, int] = {"llama": 2048, "qwen2": 32_768, "qwen3": 32_768}
"""Positions of a model whose `config.json` does not say how many."""


def read(config: Settings, generation: Settings) -> DecoderConfig:
    """The shape that a `config.json` tells, with the ends of a turn from `generation_config.json` where that names some.

    Raises `ConfigError` for a key that is missing or of the wrong type, and for what this network cannot compute. What a file leaves out
    is what transformers takes in its place.
    """
    family = _family(config)
    _refuse(config, family)
    heads, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    positions, vocabulary = config.whole("max_position_embeddings", POSITIONS[family]), config.whole("vocab_size")
    theta, yarn = rope.read(config, positions)
    return DecoderConfig(
        vocabulary=vocabulary,
        hidden=hidden,
        layers=config.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=config.whole("num_key_value_heads", heads),
        head_size=config.whole("head_dim", 128 if family == "qwen3" else max(hidden // heads, 1)),
        intermediate=config.whole("intermediate_size"),
        family=family,
        theta=theta,
        epsilon=config.number("rms_norm_eps", 1e-6),
        tied=config.flag("tie_word_embeddings", False),
        context=positions,
        eos=tuple(end for end in _ends(config, generation, family) if 0 <= end < vocabulary),  # no other can be drawn
        yarn=yarn,
    )


def _family(config: Settings) -> Family:
    named = config.text("model_type", "")
    for family in get_args(Family):
        if named == family:
            known: Family = family
            return known
    raise ConfigError(f"model_type {named!r} is not supported: choose a checkpoint of {', '.join(ARCHITECTURES)}")


def _refuse(config: Settings, family: Family) -> None:
    """`ConfigError` for the first thing that the network cannot compute."""
    refused = {
        "sliding windows": config.flag("use_sliding_window", False)
        or any(kind != "full_attention" for kind in config.entries("layer_types")),
        "biases outside q, k and v": family != "qwen2" and (config.flag("attention_bias", False) or config.flag("mlp_bias", False)),
        "activations other than silu": config.text("hidden_act", "silu") != "silu",
        "quantised weights": config.has("quantization_config"),
        "weights in a file of another name": config.has("transformers_weights"),
    }
    for what, present in refused.items():
        if present:
            raise ConfigError(f"the checkpoint uses {what}, which the embedded network does not have: use another policy")


def _ends(config: Settings, generation: Settings, family: Family) -> tuple[int, ...]:
    """Ids that end a turn. Those of `config.json` count where `generation_config.json` names none, as for transformers."""
    unsaid = (2,) if family == "llama" and "eos_token_id" not in config.content else ()
    generated, own = generation.ids("eos_token_id"), config.ids("eos_token_id")
    return generated or own or unsaid


def written(config: DecoderConfig) -> dict[str, Any]:
    """The `config.json` with which transformers builds the same network."""
    told: dict[str, Any] = {
        "architectures": [ARCHITECTURES[config.family]],
        "model_type": config.family,
        "vocab_size": config.vocabulary,
        "hidden_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "intermediate_size": config.intermediate,
        "hidden_act": "silu",
        "rope_theta": config.theta,
        "rms_norm_eps": config.epsilon,
        "tie_word_embeddings": config.tied,
        "max_position_embeddings": config.context,
        "eos_token_id": list(config.eos) or None,
        "attention_bias": config.family == "qwen2",
        "torch_dtype": "float32",
    }
    return told | ({"rope_scaling": rope.written(config.yarn, config.theta)} if config.yarn else {})
