"""The same network for sampling: fused weights, keys and values kept from token to token and from turn to turn.

What makes it fast on one core, each measured (`benchmarks/policy.py`):

* query, key and value projections are one matrix, gate and up another; the norms' weights are folded into the matrix that follows;
* head dimensions are reordered so that a rotation's pair is adjacent, and a rotation is one complex product;
* keys are stored transposed, `[K, D, T]`: the product with few queries then reads memory in order;
* dense layers run over the concatenation of all rows without padding, attention over blocks of rows cut to the longest in the block.

What is computed for a token depends on the tokens before it and on nothing else, to the last bit: not on which rows run beside it, nor on
whether it ran alone or with the tokens before it. A matrix product adds up a row's terms in one order as long as it has `LEAST` rows, and
those of attention as long as it has `SHORTEST` positions and a multiple of `WIDTH`, of which the last ones may be masked. That is so of MKL
on one thread; `exact` asks the library at hand. So a stream that is run again, by whatever route, gives the same log-probabilities.

Axes: R rows, T positions, H heads, K key-value heads, G = H / K, D head size, d hidden size, V vocabulary, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchgrad.networks.decoder import Decoder, DecoderConfig

BLOCK = 16  # rows that share one attention call; smaller blocks are cut tighter, larger ones call less often
QUERIES = 256  # new tokens of one row that attend at once
LEAST = 4
SHORTEST, WIDTH = 384, 64


def exact(positions: int = 1024) -> bool:
    """Do products on this machine, on one thread, add up a row's terms in one order, however many rows and masked positions there are?"""
    random, threads = torch.Generator().manual_seed(0), torch.get_num_threads()
    left, dense, keys, values = (torch.randn(shape, generator=random) for shape in ((64, 64), (64, 512), (64, positions), (positions, 64)))

    def attended(length: int, wide: int) -> Tensor:
        scores = (left @ keys[:, :wide]).masked_fill(torch.arange(wide) >= length, float("-inf"))
        return torch.softmax(scores, -1) @ values[:wide]

    torch.set_num_threads(1)
    try:
        whole = left @ dense
        rows = all(torch.equal(_product(left[:count], dense), whole[:count]) for count in (1, 2, 5, 16, 33))
        lengths = (7, SHORTEST // 2 + 8, SHORTEST, SHORTEST + 5, positions - 9)
        return rows and all(torch.equal(attended(n, reach(n)), attended(n, positions)) for n in lengths)
    finally:
        torch.set_num_threads(threads)


def reach(length: int) -> int:
    """The positions over which attention runs where `length` of them count: `reach(10) == 384`, `reach(400) == 448`."""
    return max(SHORTEST, -(-length // WIDTH) * WIDTH)


@dataclass(frozen=True, slots=True)
class CachedLayer:
    """One layer's matrices, transposed for `addmm`. `scale` holds query and key norm weights and 1/sqrt(D), `[H + K, D]`."""

    qkv: Tensor
    bias: Tensor | None
    scale: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor


class Cache:
    """Keys `[L, R, K, D, T]` and values `[L, R, K, T, D]`; zeros cost no memory until they are written.

    Zeros and not whatever memory held: a block is read up to its longest row, and a masked NaN is still a NaN.
    """

    def __init__(self, config: DecoderConfig, rows: int, length: int) -> None:
        shape = (config.layers, rows, config.kv_heads)
        self.keys = torch.zeros(*shape, config.head_size, reach(length))
        self.values = torch.zeros(*shape, reach(length), config.head_size)

    def clear(self) -> None:
        """Zeros everywhere again."""
        self.keys.zero_()
        self.values.zero_()

    def copy(self, row: int, source: Cache, origin: int, first: int, last: int) -> None:
        """Takes positions `[first, last)` of row `origin` of `source` into `row`."""
        if last > first:
            self.keys[:, row, :, :, first:last] = source.keys[:, origin, :, :, first:last]
            self.values[:, row, :, first:last] = source.values[:, origin, :, first:last]


class CachedDecoder:
    """A copy of a network's weights arranged for sampling; `refill` takes new weights in place of the old."""

    def __init__(self, network: Decoder, length: int) -> None:
        self.config = network.config
        self.length = length
        angles = torch.arange(length)[:, None].float() * self.config.frequencies
        yarn = self.config.yarn
        self.rotations = torch.polar(torch.full_like(angles, yarn.scale if yarn else 1.0), angles)
        self.refill({name: parameter.detach() for name, parameter in network.named_parameters()})

    def refill(self, weights: dict[str, Tensor]) -> None:
        """Fuses weights named as in transformers; the caller's tensors are copied, never kept."""
        c = self.config
        self.layers = [self._layer(weights, f"model.layers.{i}.") for i in range(c.layers)]
        self.embedding = weights["model.embed_tokens.weight"].float().clone()
        head = self.embedding if c.tied else weights["lm_head.weight"].float()
        self.head = (head * weights["model.norm.weight"].float()).t().contiguous()

    def _layer(self, weights: dict[str, Tensor], prefix: str) -> CachedLayer:
        c, size = self.config, self.config.head_size
        attention = {n: weights[f"{prefix}self_attn.{n}_proj.weight"].float() for n in "qkvo"}
        pairs = torch.arange(size).view(2, -1).t().reshape(-1)  # 0, D/2, 1, D/2 + 1, ...

        def paired(rows: Tensor) -> Tensor:
            return rows.view(-1, size, *rows.shape[1:])[:, pairs].flatten(0, 1)

        bias = None
        if c.family == "qwen2":
            q, k, v = (weights[f"{prefix}self_attn.{n}_proj.bias"].float() for n in "qkv")
            bias = torch.cat([paired(q), paired(k), v])
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
            qkv=(qkv * before).t().contiguous(),
            bias=bias,
            scale=scale,
            out=attention["o"].t().contiguous(),
            gate_up=(gate_up * after).t().contiguous(),
            down=weights[f"{prefix}mlp.down_proj.weight"].float().t().contiguous(),
        )

    def prefill(self, cache: Cache, rows: Sequence[int], known: Sequence[int], tokens: Sequence[Tensor]) -> Tensor:
        """Runs new tokens of some rows after their first `known` positions; logits after the last token of each, `[R, V]`."""
        lengths = [len(part) for part in tokens]
        positions = torch.cat([torch.arange(k, k + n) for k, n in zip(known, lengths, strict=True)])
        rotations = self.rotations[positions].unsqueeze(1)
        x = self.embedding[torch.cat(list(tokens))]
        for index, layer in enumerate(self.layers):
            q, k, v = self._project(layer, x, rotations)
            parts = zip(rows, known, *(torch.split(part, lengths) for part in (q, k, v)), strict=True)
            attended = [self._extend(cache, index, *part) for part in parts]
            x = self._finish(layer, x, torch.cat(attended))
        last = torch.tensor(lengths).cumsum(0) - 1
        return self._logits(x[last])

    def step(self, cache: Cache, tokens: Tensor, positions: Tensor, mask: Tensor, longest: Sequence[int]) -> Tensor:
        """Runs one token of each of the first R rows: `[R], [R] -> [R, V]`.

        `mask` is `[rows, T]`, 0 where a row may look and -inf elsewhere; block b of `BLOCK` rows is cut to `longest[b]` positions (see
        `reach`), and left out when that is 0.
        """
        count = len(tokens)
        rotations = self.rotations[positions].unsqueeze(1)
        index = torch.arange(count)
        x = self.embedding[tokens]
        for number, layer in enumerate(self.layers):
            q, k, v = self._project(layer, x, rotations)
            cache.keys[number].permute(0, 3, 1, 2)[index, positions] = k
            cache.values[number].permute(0, 2, 1, 3)[index, positions] = v
            x = self._finish(layer, x, self._attend(cache, number, q, mask, longest))
        return self._logits(x)

    def _attend(self, cache: Cache, layer: int, q: Tensor, mask: Tensor, longest: Sequence[int]) -> Tensor:
        c, count = self.config, len(q)
        out = torch.zeros_like(q)
        for block, length in enumerate(longest):
            if not length:
                continue
            first, last, length = block * BLOCK, min(count, (block + 1) * BLOCK), reach(length)
            rows = last - first
            keys = cache.keys[layer, first:last, :, :, :length].flatten(0, 1)
            values = cache.values[layer, first:last, :, :length].flatten(0, 1)
            scores = _product(q[first:last].reshape(rows * c.kv_heads, -1, c.head_size), keys).reshape(rows, c.heads, length)
            weights = torch.softmax(scores.add_(mask[first:last, None, :length]), -1).view(rows * c.kv_heads, -1, length)
            out[first:last] = _product(weights, values).reshape(rows, c.heads, c.head_size)
        return out

    def _extend(self, cache: Cache, layer: int, row: int, known: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Stores new keys and values of one row, then attends over all of it: `[n, H, D] -> [n, H, D]`."""
        c, new = self.config, len(q)
        cache.keys[layer, row, :, :, known : known + new] = k.permute(1, 2, 0)
        cache.values[layer, row, :, known : known + new] = v.transpose(0, 1)
        out = []
        for first in range(0, new, QUERIES):
            queries = q[first : first + QUERIES]
            count, length = len(queries), reach(known + min(new, first + QUERIES))
            # [n, K, G, D] -> [K, G n, D]: one product serves all heads that share a key head
            grouped = queries.view(count, c.kv_heads, -1, c.head_size).permute(1, 2, 0, 3).reshape(c.kv_heads, -1, c.head_size)
            scores = _product(grouped, cache.keys[layer, row, :, :, :length]).reshape(c.heads, count, length)
            past = known + first
            scores[:, :, past:] += torch.full((count, length - past), float("-inf")).triu_(1)
            weights = torch.softmax(scores, -1).view(c.kv_heads, -1, length)
            attended = _product(weights, cache.values[layer, row, :, :length])
            out.append(attended.reshape(c.heads, count, c.head_size).transpose(0, 1))
        return torch.cat(out)

    def _project(self, layer: CachedLayer, x: Tensor, rotations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scaled and rotated queries `[R, H, D]`, rotated keys and values `[R, K, D]`."""
        c = self.config
        normed = F.rms_norm(x, (c.hidden,), None, c.epsilon)
        mixed = _product(normed, layer.qkv)
        if layer.bias is not None:
            mixed += layer.bias
        heads = mixed.view(len(x), -1, c.head_size)
        turned, v = heads[:, : c.heads + c.kv_heads], heads[:, c.heads + c.kv_heads :]
        if c.family == "qwen3":
            turned = F.rms_norm(turned, (c.head_size,), None, c.epsilon)
        turned = turned * layer.scale
        pairs = torch.view_as_complex(turned.view(len(x), -1, c.head_size // 2, 2))
        turned = torch.view_as_real(pairs * rotations).flatten(-2)
        return turned[:, : c.heads], turned[:, c.heads :], v

    def _finish(self, layer: CachedLayer, x: Tensor, attended: Tensor) -> Tensor:
        x = x + _product(attended.reshape(len(x), -1), layer.out)
        gate, up = _product(F.rms_norm(x, (self.config.hidden,), None, self.config.epsilon), layer.gate_up).chunk(2, -1)
        return x + _product(F.silu(gate).mul_(up), layer.down)

    def _logits(self, x: Tensor) -> Tensor:
        return _product(F.rms_norm(x, (self.config.hidden,), None, self.config.epsilon), self.head)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """`[..., R, N] @ [..., N, M]`, of at least `LEAST` rows."""
    rows = left.shape[-2]
    return left @ right if rows >= LEAST else (F.pad(left, (0, 0, 0, LEAST - rows)) @ right)[..., :rows, :]
