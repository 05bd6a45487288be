"""The same network for sampling: fused weights, keys and values kept from token to token and from turn to turn.

What makes it fast on one core, each measured (`benchmarks/sampling/policy.py`):

* query, key and value projections are one matrix, gate and up another; the norms' weights are folded into the matrix that follows;
* products are as fast as they can be where each row has its own bits (`networks/products.py`);
* head dimensions are reordered so that a rotation's pair is adjacent;
* tokens of all streams, one of each or many, run through the dense layers together, without padding;
* attention is compiled (`networks/attention.py`), and so is what lies between two products (`networks/between.py`).

What is computed for a token depends on the tokens before it and on nothing else, to the last bit: not on which rows run beside it, nor on
whether it ran alone or with the tokens before it. What is compiled is so by its making. So a stream that is run again, by whatever route,
gives the same log-probabilities.

Axes: N tokens, T positions, H heads, K key-value heads, D head size, d hidden size, V vocabulary, L layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchgrad.networks.between import added, gated, normed, turned
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lanes import Floats, Places
from patchgrad.networks.likely import logits
from patchgrad.networks.products import Product, alike, product
from patchgrad.networks.rounding import Precision
from patchgrad.networks.slots import Cache
from patchgrad.values import Ids


@dataclass(frozen=True, slots=True)
class CachedLayer:
    """One layer's matrices, as products with them.

    `scale` holds query and key norm weights and 1/sqrt(D), `[H + K, D]`; `biases` what is added to a product, by the name of its matrix.
    """

    qkv: Product
    scale: Floats
    out: Product
    gate_up: Product
    down: Product
    biases: Mapping[str, Floats]


class CachedDecoder:
    """A copy of a network's weights arranged for sampling; `refill` takes new weights in place of the old.

    Products are in this `precision`, and attention is shared out among `threads`, as products are among torch's.
    """

    def __init__(self, network: Decoder, length: int, precision: Precision = "float32", threads: int = 1) -> None:
        alike(precision)  # asked before several threads multiply
        self.config, self.length, self.precision, self.threads = network.config, length, precision, threads
        angles = torch.arange(length)[:, None].float() * self.config.frequencies
        scale = self.config.sharpness
        self.cosines, self.sines = (angles.cos() * scale).numpy(), (angles.sin() * scale).numpy()
        self.layers: list[CachedLayer] = []
        self.refill({name: parameter.detach() for name, parameter in network.named_parameters()})

    def refill(self, weights: Mapping[str, Tensor]) -> None:
        """Fuses weights named as in transformers, one layer after the other; the caller's tensors are copied, never kept."""
        c = self.config
        for i in range(c.layers):
            self.layers[i : i + 1] = [self._layer(weights, f"model.layers.{i}.")]
        self.embedding = weights["model.embed_tokens.weight"].float().clone()
        head = self.embedding if c.tied else weights["lm_head.weight"].float()
        self.head = logits(head * weights["model.norm.weight"].float(), self.precision)

    def cache(self, slots: int) -> Cache:
        """Room for so many streams of the longest length."""
        return Cache(self.config, slots, self.length, self.precision, self.threads)

    def _layer(self, weights: Mapping[str, Tensor], prefix: str) -> CachedLayer:
        c, size = self.config, self.config.head_size
        attention = {n: weights[f"{prefix}self_attn.{n}_proj.weight"].float() for n in "qkvo"}
        pairs = torch.arange(size).view(2, -1).t().reshape(-1)  # 0, D/2, 1, D/2 + 1, ...

        def paired(rows: Tensor) -> Tensor:
            return rows.view(-1, size, *rows.shape[1:])[:, pairs].flatten(0, 1)

        biases: dict[str, Tensor] = {}
        if "qkv" in c.biases:
            q, k, v = (weights[f"{prefix}self_attn.{n}_proj.bias"].float() for n in "qkv")
            biases["qkv"] = torch.cat([paired(q), paired(k), v])
        if "o" in c.biases:
            biases["out"] = weights[f"{prefix}self_attn.o_proj.bias"].float().clone()
        if "mlp" in c.biases:
            biases["gate_up"] = torch.cat([weights[f"{prefix}mlp.{n}_proj.bias"].float() for n in ("gate", "up")])
            biases["down"] = weights[f"{prefix}mlp.down_proj.bias"].float().clone()
        scale = torch.ones(c.heads + c.kv_heads, size)
        if c.family == "qwen3":
            scale[: c.heads] = weights[f"{prefix}self_attn.q_norm.weight"].float()[pairs]
            scale[c.heads :] = weights[f"{prefix}self_attn.k_norm.weight"].float()[pairs]
        scale[: c.heads] *= size**-0.5
        before = weights[f"{prefix}input_layernorm.weight"].float()
        after = weights[f"{prefix}post_attention_layernorm.weight"].float()
        gate_up = torch.cat([weights[f"{prefix}mlp.{n}_proj.weight"].float() for n in ("gate", "up")])
        qkv = torch.cat([paired(attention["q"]), paired(attention["k"]), attention["v"]])
        return CachedLayer(
            qkv=product(qkv * before, self.precision),
            scale=scale.numpy(),
            out=product(attention["o"], self.precision),
            gate_up=product(gate_up * after, self.precision),
            down=product(weights[f"{prefix}mlp.down_proj.weight"].float(), self.precision),
            biases={name: bias.numpy() for name, bias in biases.items()},
        )

    def run(self, cache: Cache, tokens: Ids, slots: Places, positions: Places, wanted: Places) -> Tensor:
        """Runs tokens `[N]` of any streams and stores their keys and values; the logits after those at `wanted`, `[W, V]`.

        Each token has the slot of its stream and its position there, and stands behind those of its stream that lie before it. With stream
        0 known up to its third token, `run(cache, [7, 8, 5], slots=[0, 0, 1], positions=[3, 4, 0], wanted=[1, 2])` reads on in it, begins
        another in slot 1, and gives the logits after both.
        """
        c = self.config
        x = self.embedding[torch.from_numpy(tokens)].numpy()
        rows, said = normed(x, c.epsilon), np.arange(len(x))
        for number, layer in enumerate(self.layers):
            mixed = _with_bias(layer, "qkv", layer.qkv(rows))
            q, k, v = turned(mixed, layer.scale, self.cosines, self.sines, positions, c.epsilon, c.heads, c.family == "qwen3")
            if number == c.layers - 1:  # where of the others keys and values are all that is read
                x, said = x[wanted], wanted
            attended = cache.attend(number, q, k, v, slots, positions, said)
            mixed = _with_bias(layer, "out", layer.out(attended.reshape(len(x), c.heads * c.head_size)))
            rows = added(x, mixed, c.epsilon)
            wide = _with_bias(layer, "gate_up", layer.gate_up(rows))
            rows = added(x, _with_bias(layer, "down", layer.down(gated(wide))), c.epsilon)
        return torch.from_numpy(self.head(rows))


def _with_bias(layer: CachedLayer, matrix: str, found: Floats) -> Floats:
    """What a matrix's product comes to with its bias, if it has one."""
    bias = layer.biases.get(matrix)
    return found if bias is None else found + bias
