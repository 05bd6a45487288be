"""A network's shape as the `config.json` of transformers tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from patchgrad.errors import ConfigError
from patchgrad.networks import rope
from patchgrad.networks.decoder import BIASES, DecoderConfig, Family
from patchgrad.networks.settings import Settings

ARCHITECTURES: Mapping[Family, str] = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
POSITIONS: Mapping[Family, int] = {"llama": 2048, "mistral": 131_072, "qwen2": 32_768, "qwen3": 32_768}
"""Positions of a model whose `config.json` does not say how many."""
KV_HEADS: Mapping[Family, int] = {"mistral": 8, "qwen2": 32, "qwen3": 32}
"""Of a model whose `config.json` does not name them; where it names null, and in Llama, there are as many as heads."""
WINDOW = 4096  # tokens, where layers have a window and it is not said how long
DEEPEST = 10_000  # layers
FULL = "full_attention"


def read(config: Settings, generation: Settings) -> DecoderConfig:
    """The shape that a `config.json` tells, with the ends of a turn from `generation_config.json` where that names some.

    Raises `ConfigError` for a key that is missing or of the wrong type, and for what this network cannot compute. What a file leaves out
    is what transformers takes in its place.
    """
    family = _family(config)
    _refuse(config)
    heads, hidden = config.whole("num_attention_heads"), config.whole("hidden_size")
    positions, vocabulary = config.whole("max_position_embeddings", POSITIONS[family]), config.whole("vocab_size")
    theta, scaling = rope.read(config, positions)
    layers = config.whole("num_hidden_layers")
    if layers > DEEPEST:  # each is listed with its window before its weights are looked for
        raise ConfigError(f"num_hidden_layers in {config.source} is {layers}, and no network has more than {DEEPEST}: copy it again")
    return DecoderConfig(
        vocabulary=vocabulary,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=config.whole("num_key_value_heads", heads if "num_key_value_heads" in config.content else KV_HEADS.get(family, heads)),
        head_size=config.whole("head_dim", 128 if family == "qwen3" else max(hidden // heads, 1)),
        intermediate=config.whole("intermediate_size"),
        family=family,
        theta=theta,
        epsilon=config.number("rms_norm_eps", 1e-6),
        tied=config.flag("tie_word_embeddings", False),
        context=positions,
        eos=tuple(end for end in _ends(config, generation, family) if 0 <= end < vocabulary),  # no other can be drawn
        scaling=scaling,
        biases=_biases(config, family),
        windows=_windows(config, family, layers),
    )


def _family(config: Settings) -> Family:
    named = config.text("model_type", "")
    for family in get_args(Family):
        if named == family:
            known: Family = family
            return known
    raise ConfigError(f"model_type {named!r} is not supported: choose a checkpoint of {', '.join(ARCHITECTURES)}")


def _biases(config: Settings, family: Family) -> tuple[str, ...]:
    """What transformers adds a bias to in this family; a key that it does not read there says nothing."""
    asked = [("attention_bias", ("qkv", "o"), ("llama", "qwen3")), ("mlp_bias", ("mlp",), ("llama",))]
    found = [part for key, parts, families in asked if family in families and config.flag(key, False) for part in parts]
    return tuple(found) or BIASES[family][0]


def _windows(config: Settings, family: Family, layers: int) -> tuple[int, ...]:
    """How far back each layer sees: in Mistral all, in Qwen those that `layer_types` names, or that lie behind `max_window_layers`."""
    if family == "llama":
        return ()
    if family == "mistral":
        said = "sliding_window" not in config.content or config.has("sliding_window")
        return (config.whole("sliding_window", WINDOW),) * layers if said else ()
    slides = config.flag("use_sliding_window", False) and (config.has("sliding_window") or "sliding_window" not in config.content)
    first = config.whole("max_window_layers", 28) if config.content.get("max_window_layers") != 0 else 0
    unsaid = ["sliding_attention" if slides and at >= first else FULL for at in range(layers)]
    kinds = config.entries("layer_types") if config.has("layer_types") else unsaid
    if len(kinds) != layers or not all(kind in (FULL, "sliding_attention") for kind in kinds):
        raise ConfigError(f"layer_types in {config.source} must name {layers} layers, each {FULL} or sliding_attention")
    if "sliding_attention" not in kinds:
        return ()
    if not slides:
        raise ConfigError(f"layer_types in {config.source} names layers with a window, and use_sliding_window gives them none")
    window = config.whole("sliding_window", WINDOW)
    return tuple(0 if kind == FULL else window for kind in kinds)


def _refuse(config: Settings) -> None:
    """`ConfigError` for the first thing that the network cannot compute."""
    refused = {
        "activations other than silu": config.text("hidden_act", "silu") != "silu",
        "quantised weights": config.has("quantization_config"),
        "weights in a file of another name": config.has("transformers_weights"),
    }
    for what, present in refused.items():
        if present:
            raise ConfigError(f"the checkpoint uses {what}, which the embedded network does not have: use another policy")


def _ends(config: Settings, generation: Settings, family: Family) -> tuple[int, ...]:
    """Ids that end a turn. Those of `config.json` count where `generation_config.json` names none."""
    unsaid = (2,) if family in ("llama", "mistral") and "eos_token_id" not in config.content else ()
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
        "torch_dtype": "float32",
    }
    biases = {"attention_bias": "o" in config.biases, "mlp_bias": "mlp" in config.biases} if config.family in ("llama", "qwen3") else {}
    scaling = {"rope_scaling": {**config.scaling.told(), "rope_theta": config.theta}} if config.scaling else {}
    return told | biases | _windowed(config) | scaling


def _windowed(config: DecoderConfig) -> dict[str, Any]:
    """The keys that tell how far back layers see; in Mistral it is one number for all."""
    window = max(config.windows, default=0)
    if config.family == "mistral":
        return {"sliding_window": window or None}
    if not window:
        return {}
    kinds = ["sliding_attention" if one else FULL for one in config.windows]
    return {"use_sliding_window": True, "sliding_window": window, "layer_types": kinds}
