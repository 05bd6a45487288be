"""What is in a model's folder, in words: its shape, its template, and what a policy made of it will and will not read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError
from patchgrad.networks import folder
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.values import Message

_TURN = Message("user", "{what the agent sees}")
_SYSTEM = Message("system", "{the agent's instructions}")


def about(source: str) -> Mapping[str, Any]:
    """What is told of a folder or a hub id, in groups; `ConfigError` for a shape that cannot be read.

    Where the chat cannot be read, the reason stands in its place.
    """
    shape = folder.shape(source)
    return {"network": _network(shape), "chat": _chat(folder.locate(source), shape)}


def _network(shape: DecoderConfig) -> dict[str, Any]:
    windows = sorted({window for window in shape.windows if window})
    return {
        "family": shape.family,
        "parameters": shape.parameters,
        "layers": shape.layers,
        "hidden": shape.hidden,
        "heads": f"{shape.heads} of size {shape.head_size}, keys and values of {shape.kv_heads}",
        "feed forward": shape.intermediate,
        "vocabulary": shape.vocabulary,
        "head": "the embedding" if shape.tied else "its own",
        "biases": ", ".join(shape.biases) or "none",
        "positions": shape.reach,
        "rotary base": shape.theta,
        "stretched by": type(shape.scaling).__name__.lower() if shape.scaling else "nothing",
        "window": f"{windows[0]} tokens in {sum(map(bool, shape.windows))} layers" if windows else "none",
        "float32 weights": f"{4 * shape.parameters / 1e9:.2f} GB",
    }


def _chat(path: Path, shape: DecoderConfig) -> dict[str, Any]:
    """How a conversation is spelt, or why none can be."""
    try:
        tokenizer = ChatTokenizer.load(path)
        first = tokenizer.decode(tokenizer.encode([_TURN], None).tolist())
        told = {
            "tokens": tokenizer.vocabulary,
            "special tokens": len(tokenizer.special),
            "an answer ends at": ", ".join(tokenizer.decode([end]) for end in sorted({*tokenizer.eos, *shape.eos})),
            "a first prompt": first,
        }
    except ConfigError as refusal:
        return {"cannot be read": str(refusal)}
    try:
        tokenizer.encode([_SYSTEM, _TURN], None)
        told["system messages"] = "read"
    except ConfigError as refusal:
        told["system messages"] = f"not read ({refusal}); choose agent.prompts brief"
    return told
