"""What is in a model's folder, in words: its shape, its template, and what a policy made of it will and will not read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from patchgrad.errors import ConfigError, NotAccepted
from patchgrad.networks import folder
from patchgrad.networks.decoder import DecoderConfig
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.policies.tokenizers.rendering import render
from patchgrad.values import Message

_TURN = Message("user", "{what the agent sees}")
_SYSTEM = Message("system", "{the agent's instructions}")
_BEGIN, _END = "<think>", "</think>"


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
        last = {tokenizer.decode([end]) for end in {*tokenizer.eos, *shape.eos}}
        told: dict[str, Any] = {
            "tokens": tokenizer.vocabulary,
            "a first prompt": first,
            "an answer ends at": ", ".join(sorted(last)),
            "special tokens": _special(tokenizer, last),
            "inside a message": "the name of a special token is spelt out in ordinary tokens, so that no file can end a turn",
            "thoughts": _thoughts(tokenizer, first),
            "tools, dates": "the template gets no tools, and one fixed day",
        }
    except ConfigError as refusal:
        return {"cannot be read": str(refusal)}
    try:
        tokenizer.encode([_SYSTEM, _TURN], None)
        told["system messages"] = "read"
    except ConfigError as refusal:
        told["system messages"] = f"not read ({refusal}); choose agent.prompts brief"
    return told


def _special(tokenizer: ChatTokenizer, last: Collection[str]) -> dict[str, str]:
    """Each special token, and what it is for here: those of a conversation first."""
    spelt = tokenizer.template.whole(_TURN)
    used = {name: name in last or name in spelt for name in tokenizer.special}
    return {
        name: "ends an answer" if name in last else "frames messages" if used[name] else "no part of a conversation"
        for name in sorted(used, key=lambda name: (not used[name], tokenizer.special[name]))
    }


def _thoughts(tokenizer: ChatTokenizer, first: str) -> str:
    """What becomes of a thought, and where the template would have it otherwise."""
    template = tokenizer.template
    told = [f"read: {_BEGIN}...{_END} before an answer holds no call, and stays in the stream"]
    said = Message("assistant", f"{_BEGIN}Thought{_END}Answer")
    try:
        later = render(template.text, [_TURN, said, _TURN], template.variables, opens=True)
        told += ["the template takes it out of earlier turns"] if "Thought" not in later else []
    except NotAccepted:
        told += ["the template refuses one in an earlier turn"]
    prompt = first.rstrip()
    if prompt.endswith(_BEGIN):
        told.append("a prompt opens it, so an answer begins inside it")
    elif prompt.endswith(_END):
        told.append("a prompt ends it, so an answer begins behind it")
    return "; ".join(told)
