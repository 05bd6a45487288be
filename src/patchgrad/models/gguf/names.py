"""What a tensor is called in GGUF and in transformers, and how rows of queries and keys lie in each.

In a file of the architecture `llama` a rotation's pair are neighbours, `(0, 1), (2, 3)`, and in transformers the halves of a head,
`(0, D/2), (1, D/2 + 1)`; in `qwen2` and `qwen3` they lie as in transformers.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from patchgrad.networks.decoder import DecoderConfig

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def of(config: DecoderConfig) -> Iterator[tuple[str, str]]:
    """(GGUF's name, transformers') of every tensor that a network of some shape may have, layer by layer."""
    for theirs, ours in _TOP.items():
        yield f"{theirs}.weight", f"{ours}.weight"
    for layer in range(config.layers):
        for theirs, ours in _LAYER.items():
            for kind in ("weight", "bias"):
                yield f"blk.{layer}.{theirs}.{kind}", f"model.layers.{layer}.{ours}.{kind}"


def from_neighbours(name: str, tensor: Tensor, config: DecoderConfig) -> Tensor:
    """A tensor as GGUF has it, with its rows as transformers has them."""
    heads = _turned(name, config)
    if not heads:
        return tensor
    return tensor.reshape(heads, -1, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def to_neighbours(name: str, tensor: Tensor, config: DecoderConfig) -> Tensor:
    """The other way round."""
    heads = _turned(name, config)
    if not heads:
        return tensor
    return tensor.reshape(heads, 2, -1, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def _turned(name: str, config: DecoderConfig) -> int:
    """How many heads' rows lie otherwise in this tensor, called as in GGUF; 0 for none."""
    if config.family not in ("llama", "mistral"):
        return 0
    part = name.split(".")[-2]
    return {"attn_q": config.heads, "attn_k": config.kv_heads}.get(part, 0)
