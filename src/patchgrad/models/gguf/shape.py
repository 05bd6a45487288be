"""A network's shape as the keys of a GGUF file tell it, and back.

GGUF names architectures and not families of transformers: `llama` is Llama, Mistral and SmolLM, whose shapes are computed alike but for
windows, which the file does not tell of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.models.gguf.file import GgufFile
from patchgrad.networks import rope
from patchgrad.networks.decoder import DecoderConfig, Family
from patchgrad.networks.scaling import Linear, Llama3, Scaling, Yarn
from patchgrad.networks.settings import Settings

ARCHITECTURES: tuple[Family, ...] = ("llama", "qwen2", "qwen3")
FACTORS = "rope_freqs.weight"
_LLAMA3 = (1.0, 4.0, 8192)
"""Low and high factor and original length of every Llama 3: the file holds what comes of them, and not the numbers themselves."""
_BEYOND = ("expert_count", "attention.sliding_window", "attention.sliding_window_pattern", "attention.clamp_kqv", "attention.scale")
_NEUTRAL = ("logit_scale", "residual_scale", "embedding_scale", "rope.scale_linear")


def read(file: GgufFile) -> DecoderConfig:
    """The shape that a file tells; `ConfigError` for another architecture, and for what this network cannot compute."""
    said = file.said
    family = _family(said)
    part = Settings(
        {key.removeprefix(f"{family}."): value for key, value in said.content.items() if key.startswith(f"{family}.")}, said.source
    )
    beyond = [key for key in _BEYOND if part.content.get(key)] + [key for key in _NEUTRAL if part.content.get(key, 1.0) not in (0.0, 1.0)]
    if beyond:
        raise ConfigError(f"{said.source} has {family}.{beyond[0]}, which the embedded network does not have: use another policy")
    heads, hidden = part.whole("attention.head_count"), part.whole("embedding_length")
    size, context = part.whole("attention.key_length", max(hidden // heads, 1)), part.whole("context_length")
    if part.whole("attention.value_length", size) != size or part.whole("rope.dimension_count", size) != size:
        raise ConfigError(f"{said.source} has values, or rotations, of another size than its heads: use another policy")
    theta = part.number("rope.freq_base", 10_000.0)
    return DecoderConfig(
        vocabulary=_rows(file, "token_embd.weight"),
        hidden=hidden,
        layers=part.whole("block_count"),
        heads=heads,
        kv_heads=part.whole("attention.head_count_kv", heads),
        head_size=size,
        intermediate=part.whole("feed_forward_length"),
        family=family,
        theta=theta,
        epsilon=part.number("attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in file.tensors,
        context=context,
        eos=_ends(said),
        scaling=_scaling(file, part, size, theta, context),
        biases=_biases(file, family),
    )


def _rows(file: GgufFile, name: str) -> int:
    if name not in file.tensors:
        raise ConfigError(f"{file.said.source} has no {name}: take a file that holds a whole model")
    return int(file.tensors[name].shape[-1])


def _family(said: Settings) -> Family:
    named = said.text("general.architecture")
    for family in get_args(Family):
        if named == family and family in ARCHITECTURES:
            known: Family = family
            return known
    raise ConfigError(f"{said.source} is of architecture {named}: there are {', '.join(ARCHITECTURES)}")


def _ends(said: Settings) -> tuple[int, ...]:
    """Ids that end a turn: of the text, of a turn, and of a message, as far as the file names them."""
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")
    return tuple(dict.fromkeys(int(said.content[key]) for key in keys if said.content.get(key) is not None))


def _biases(file: GgufFile, family: Family) -> tuple[str, ...]:
    named = {"qkv": "blk.0.attn_q.bias", "o": "blk.0.attn_output.bias", "mlp": "blk.0.ffn_gate.bias"}
    return tuple(part for part, name in named.items() if name in file.tensors)


def _scaling(file: GgufFile, part: Settings, size: int, theta: float, context: int) -> Scaling | None:
    kind = part.text("rope.scaling.type", "none")
    if FACTORS in file.tensors:
        return _llama3(file, size, theta)
    if kind == "none":
        return None
    factor = part.number("rope.scaling.factor")
    if kind == "linear":
        return Linear(factor)
    if kind == "yarn" and not part.content.get("rope.scaling.yarn_log_multiplier"):
        sharpness = part.number("rope.scaling.attn_factor", 1.0)
        if sharpness == 1.0:
            return Yarn(factor, part.whole("rope.scaling.original_context_length", context))
    raise ConfigError(f"{part.source} has positions scaled by {kind}, which the embedded network does not have: use another policy")


def _llama3(file: GgufFile, size: int, theta: float) -> Llama3:
    """The stretching whose factors stand in a tensor, `[D / 2]`: the greatest of them is its own."""
    factors = file.tensor(FACTORS).float()
    low, high, original = _LLAMA3
    found = Llama3(float(factors.max()), original, low, high)
    plain = rope.frequencies(size, theta)
    if factors.shape != plain.shape or not torch.allclose(plain / found.slowed(plain, theta), factors, rtol=1e-3):
        raise ConfigError(f"{FACTORS} in {file.said.source} are not those of Llama 3, and no others are known: use another policy")
    return found


def plain(config: DecoderConfig) -> Tensor:
    """How far pairs would turn, were they not stretched, `[D / 2]`."""
    return rope.frequencies(config.head_size, config.theta)


def written(config: DecoderConfig) -> Mapping[str, Any]:
    """The keys of a file, without what precedes them, that tell this shape; `ConfigError` for what GGUF cannot tell."""
    if config.windows and config.family != "mistral":
        raise ConfigError("GGUF does not tell which layers see a window: export a folder instead")
    told: dict[str, Any] = {
        "block_count": config.layers,
        "context_length": config.context,
        "embedding_length": config.hidden,
        "feed_forward_length": config.intermediate,
        "attention.head_count": config.heads,
        "attention.head_count_kv": config.kv_heads,
        "attention.key_length": config.head_size,
        "attention.value_length": config.head_size,
        "attention.layer_norm_rms_epsilon": config.epsilon,
        "rope.freq_base": config.theta,
        "rope.dimension_count": config.head_size,
        "vocab_size": config.vocabulary,
    }
    return told | _scaled(config.scaling)


def _scaled(scaling: Scaling | None) -> dict[str, Any]:
    if isinstance(scaling, Linear):
        return {"rope.scaling.type": "linear", "rope.scaling.factor": scaling.factor}
    if isinstance(scaling, Yarn):
        if scaling != Yarn(scaling.factor, scaling.original):
            raise ConfigError("GGUF tells of YaRN a factor and a length alone: export a folder instead")
        told = {"factor": scaling.factor, "original_context_length": scaling.original}
        return {"rope.scaling.type": "yarn", **{f"rope.scaling.{key}": value for key, value in told.items()}}
    return {}
