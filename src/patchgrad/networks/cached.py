"""The same network for sampling: fused weights, keys and values kept from token to token and from turn to turn.

What makes it fast on one core, each measured (`benchmarks/sampling/policy.py`):

* query, key and value projections are one matrix, gate and up another; the norms' weights are folded into the matrix that follows;
* a large matrix lies in blocks of columns, each of which a product of few rows reads without repacking all of it, on whichever thread;
* head dimensions are reordered so that a rotation's pair is adjacent;
* tokens of all streams, one of each or many, run through the dense layers together, without padding;
* attention is compiled (`networks/attention.py`), and so is what lies between two products (`networks/between.py`).

What is computed for a token depends on the tokens before it and on nothing else, to the last bit: not on which rows run beside it, nor on
whether it ran alone or with the tokens before it. What is compiled is so by its making. A matrix product of MKL's on one thread adds up a
row's terms in one order where it has as many rows as `alike` finds out. So a stream that is run again, by whatever route, gives the same
log-probabilities.

Axes: N tokens, T positions, H heads, K key-value heads, D head size, d hidden size, V vocabulary, L layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from patchgrad.networks.attention import Cache
from patchgrad.networks.between import added, gated, normed, turned
from patchgrad.networks.decoder import Decoder
from patchgrad.networks.lanes import Floats, Places
from patchgrad.networks.threads import one_thread
from patchgrad.values import Ids

ALIKE = ((4, 1), (8, 4), (16, 16))
"""What numbers of rows may be alike: at least so many, and a multiple of so many."""
LARGE, WIDTH = 1 << 18, 512
"""From so many numbers on a matrix lies in blocks of at most so many columns; below that a cache holds it, and one product is fastest."""
COUNTS = (*range(1, 34), 63, 100, 150)  # of rows, of which products are compared


def exact() -> bool:
    """Do products on this machine, on one thread, add up a row's terms in one order, however many rows there are?"""
    return alike() is not None


@cache
def alike() -> tuple[int, int] | None:
    """The least of `ALIKE` with which a row's terms are added up in one order, or `None`.

    With `(8, 4)` the rows of a product are filled up to 8, 12, 16 and so on. MKL's kernels for the instructions that all processors have
    need that, and newer ones `(4, 1)`.
    """
    random = torch.Generator().manual_seed(0)
    pairs = [(torch.randn(150, inner, generator=random), torch.randn(inner, 512, generator=random)) for inner in (64, 256, 768)]
    with one_thread():
        return next((rows for rows in ALIKE if all(_agree(left, right, rows) for left, right in pairs)), None)


def _agree(left: Tensor, right: Tensor, rows: tuple[int, int]) -> bool:
    whole = _filled(left.numpy(), right, rows)
    return all(np.array_equal(_filled(left[:count].numpy(), right, rows), whole[:count]) for count in COUNTS)


@dataclass(frozen=True, slots=True)
class CachedLayer:
    """One layer's matrices, transposed for products and in `blocks`.

    `scale` holds query and key norm weights and 1/sqrt(D), `[H + K, D]`; `biases` what is added to a product, by the name of its matrix.
    """

    qkv: Tensor
    scale: Floats
    out: Tensor
    gate_up: Tensor
    down: Tensor
    biases: Mapping[str, Floats]


class CachedDecoder:
    """A copy of a network's weights arranged for sampling; `refill` takes new weights in place of the old."""

    def __init__(self, network: Decoder, length: int) -> None:
        alike()  # asked before several threads multiply
        self.config = network.config
        self.length = length
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
        self.head = blocks((head * weights["model.norm.weight"].float()).t())

    def cache(self, slots: int) -> Cache:
        """Room for so many streams of the longest length."""
        return Cache(self.config, slots, self.length)

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
            qkv=blocks((qkv * before).t()),
            scale=scale.numpy(),
            out=blocks(attention["o"].t()),
            gate_up=blocks((gate_up * after).t()),
            down=blocks(weights[f"{prefix}mlp.down_proj.weight"].float().t()),
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
            mixed = _with_bias(layer, "qkv", _product(rows, layer.qkv))
            q, k, v = turned(mixed, layer.scale, self.cosines, self.sines, positions, c.epsilon, c.heads, c.family == "qwen3")
            if number == c.layers - 1:  # where of the others keys and values are all that is read
                x, said = x[wanted], wanted
            attended = cache.attend(number, q, k, v, slots, positions, said)
            mixed = _with_bias(layer, "out", _product(attended.reshape(len(x), c.heads * c.head_size), layer.out))
            rows = added(x, mixed, c.epsilon)
            wide = _with_bias(layer, "gate_up", _product(rows, layer.gate_up))
            rows = added(x, _with_bias(layer, "down", _product(gated(wide), layer.down)), c.epsilon)
        return torch.from_numpy(_product(rows, self.head))


def _with_bias(layer: CachedLayer, matrix: str, product: Floats) -> Floats:
    """What a matrix's product comes to with its bias, if it has one."""
    bias = layer.biases.get(matrix)
    return product if bias is None else product + bias


def blocks(matrix: Tensor) -> Tensor:
    """A matrix `[N, M]` as it is, or a large one as blocks of its columns, `[B, N, M / B]`.

    `[576, 3072]` becomes `[6, 576, 512]`. Where no width from a quarter of `WIDTH` to all of it divides the columns, it stays whole.
    """
    columns = matrix.shape[1]
    width = next((width for width in range(min(WIDTH, columns // 2), WIDTH // 4 - 1, -1) if columns % width == 0), columns)
    if matrix.numel() < LARGE or width == columns:
        return matrix.contiguous()
    return matrix.reshape(len(matrix), -1, width).transpose(0, 1).contiguous()


def _product(left: Floats, right: Tensor) -> Floats:
    """`[R, N] @ [N, M]`, with the rows that make it `alike`. One thread multiplies a block, so how many there are changes nothing."""
    return _filled(left, right, alike() or ALIKE[0])


def _filled(left: Floats, right: Tensor, alike: tuple[int, int]) -> Floats:
    """The product with rows of zeros behind the last, as many as there have to be."""
    rows, (least, multiple) = len(left), alike
    more = max(least, -(-rows // multiple) * multiple) - rows
    if more:
        left = np.concatenate([left, np.zeros((more, left.shape[1]), np.float32)])
    if right.dim() == 2:
        return torch.mm(torch.from_numpy(left), right).numpy()[:rows]
    parts = torch.bmm(torch.from_numpy(left).expand(len(right), *left.shape), right)
    return parts.transpose(0, 1).flatten(1).numpy()[:rows]
