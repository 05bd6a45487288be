"""A decoder-only transformer of the Llama family, for training on packed sequences.

RMSNorm (1910.07467), rotary positions (2104.09864), grouped-query attention (2305.13245), SwiGLU (2002.05202); with bias on the
query, key and value projections it is Qwen2 (2407.10671), with a norm on queries and keys Qwen3 (2505.09388), with layers that see a
window of the last tokens Mistral (2310.06825). Parameters carry the names of the transformers library, so a state dict is a checkpoint.

Axes: T tokens of a pack, H heads, K key-value heads, D head size, d hidden size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from patchgrad.errors import ConfigError
from patchgrad.networks import rope, scoring
from patchgrad.networks.packed import Attend, Rows, within
from patchgrad.networks.prefixes import Layout, Node, paying
from patchgrad.networks.projected import plain, projected
from patchgrad.networks.rope import rotate
from patchgrad.networks.scaling import Scaling, Yarn
from patchgrad.values import Ids

Seen = Callable[[Tensor, Tensor, Tensor], Tensor]  # `Attend` of one layer
Family = Literal["llama", "mistral", "qwen2", "qwen3"]
BIASES: Mapping[Family, tuple[tuple[str, ...], ...]] = {
    "llama": ((), ("qkv", "o"), ("mlp",), ("qkv", "o", "mlp")),
    "mistral": ((),),
    "qwen2": (("qkv",),),
    "qwen3": ((), ("qkv", "o")),
}
"""The projections that add a bias in a network of each family; the first is how it has none that it can be without."""
LOGITS = 1 << 22  # elements of one block of logits where all of a row are wanted


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The shape of a network. `context` is the number of positions it claims; `eos` the ids that end a turn.

    `biases` has the projections of a layer that add a bias: `"qkv"`, `"o"`, `"mlp"`. Of `windows`, one a layer, 0 is a layer that sees all
    tokens before, and 4096 one that sees the last 4,096; without any, all layers see all.
    """

    vocabulary: int
    hidden: int = 160
    layers: int = 4
    heads: int = 5
    kv_heads: int = 1
    head_size: int = 32
    intermediate: int = 448
    family: Family = "qwen3"
    theta: float = 10_000.0
    epsilon: float = 1e-6
    tied: bool = True
    context: int = 2048
    eos: tuple[int, ...] = ()
    scaling: Scaling | None = None
    biases: tuple[str, ...] = ()
    windows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads or self.head_size % 2:
            raise ConfigError("a network needs heads divisible by kv_heads and an even head_size")
        if self.windows and len(self.windows) != self.layers:
            raise ConfigError(f"a network of {self.layers} layers needs as many windows, not {len(self.windows)}")
        if self.biases not in BIASES[self.family]:
            raise ConfigError(f"a {self.family} network has biases {BIASES[self.family]}, not {self.biases}")
        if self.family == "llama" and self.hidden % self.heads:
            raise ConfigError("a llama network needs hidden divisible by heads: transformers refuses it otherwise")

    @property
    def frequencies(self) -> Tensor:
        """How far each rotary pair turns from one position to the next, `[D / 2]`."""
        return rope.frequencies(self.head_size, self.theta, self.scaling)

    @property
    def sharpness(self) -> float:
        """What cosine and sine of rotations are multiplied by."""
        return self.scaling.scale if self.scaling else 1.0

    @property
    def reach(self) -> int:
        """Positions that the network was made for; beyond them it reads nothing right."""
        return self.scaling.reach(self.context) if self.scaling else self.context

    @property
    def dense(self) -> int:
        """Multiplications of a layer with each token."""
        return self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads) + 3 * self.hidden * self.intermediate

    @property
    def kept(self) -> int:
        """Those of `dense` that make a token's key and value."""
        return 2 * self.hidden * self.head_size * self.kv_heads

    @property
    def paired(self) -> int:
        """Multiplications of a layer with each pair of tokens of which one sees the other."""
        return 2 * self.heads * self.head_size

    @property
    def parameters(self) -> int:
        """How many numbers the network has; norms of heads and biases, which are few, left out."""
        return self.vocabulary * self.hidden * (2 - self.tied) + self.layers * (self.dense + 2 * self.hidden) + self.hidden

    def reaching(self, context: int, factor: float = 1.0) -> DecoderConfig:
        """The shape for so many positions, stretched by YaRN where the factor says so; `ConfigError` if they are too many.

        `shape.reaching(131_072, 4.0)` of one with 32,768. A shape that is stretched already stays as it is.
        """
        found = replace(self, scaling=Yarn(factor, self.context)) if factor > 1 and self.scaling is None else self
        if context > found.reach:
            more = "" if self.scaling else f"stretch them by a yarn of {math.ceil(context / self.context)}, or "
            raise ConfigError(f"a context of {context} tokens is beyond the {found.reach} positions that the model reads: {more}take less")
        return found


class Norm(nn.Module):
    """x / rms(x) * weight over the last axis, in the weight's precision also under autocast."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return self.given(x, self.weight)

    def given(self, x: Tensor, weight: Tensor) -> Tensor:
        """The norm with a weight that may be another than its own."""
        return F.rms_norm(x.to(weight.dtype), (x.shape[-1],), weight, self.epsilon)


class Attention(nn.Module):
    """Projections, norms and rotations around attention; what a token sees is the caller's to say."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        c, bias = config, "qkv" in config.biases
        self.size = c.head_size
        self.q_proj = nn.Linear(c.hidden, c.heads * c.head_size, bias=bias)
        self.k_proj = nn.Linear(c.hidden, c.kv_heads * c.head_size, bias=bias)
        self.v_proj = nn.Linear(c.hidden, c.kv_heads * c.head_size, bias=bias)
        self.o_proj = nn.Linear(c.heads * c.head_size, c.hidden, bias="o" in c.biases)
        if c.family == "qwen3":
            self.q_norm, self.k_norm = Norm(c.head_size, c.epsilon), Norm(c.head_size, c.epsilon)
        self.normed = c.family == "qwen3"

    def forward(self, x: Tensor, norm: Norm, rotations: tuple[Tensor, Tensor], attend: Seen, said: Tensor | None) -> Tensor:
        readers = ((self.q_proj, said), (self.k_proj, None), (self.v_proj, None))
        q, k, v = (part.view(len(part), part.shape[1] // self.size, self.size) for part in projected(norm.given, (x, norm.weight), readers))
        if self.normed:
            q, k = self.q_norm(q), self.k_norm(k)
        q = rotate(q, *(_of(part, said) for part in rotations)).to(v.dtype)
        k = rotate(k, *rotations).to(v.dtype)
        return projected(plain, (attend(q, k, v).flatten(1),), ((self.o_proj, None),))[0]


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        bias = "mlp" in config.biases
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=bias)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=bias)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=bias)

    def forward(self, x: Tensor, norm: Norm) -> Tensor:
        wide = projected(norm.given, (x, norm.weight), ((self.gate_proj, None), (self.up_proj, None)))
        return projected(gated, wide, ((self.down_proj, None),))[0]


def gated(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up."""
    return F.silu(gate) * up


class Layer(nn.Module):
    """Pre-norm residual block, of all tokens or of those that are `said`."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.input_layernorm = Norm(config.hidden, config.epsilon)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(config.hidden, config.epsilon)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, rotations: tuple[Tensor, Tensor], attend: Seen, said: Tensor | None = None) -> Tensor:
        x = _of(x, said) + self.self_attn(x, self.input_layernorm, rotations, attend, said)
        out: Tensor = x + self.mlp(x, self.post_attention_layernorm)
        return out


def _of(x: Tensor, said: Tensor | None) -> Tensor:
    """These rows of it, or all."""
    return x if said is None else x.index_select(0, said)


class Body(nn.Module):
    """Everything below the head: its prefix `model.` in parameter names is transformers' own."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = Norm(config.hidden, config.epsilon)


class Decoder(nn.Module):
    """The network. `forward_packed` gives hidden states, `logprobs` turns chosen ones into log-probabilities."""

    def __init__(self, config: DecoderConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.model = Body(config)
        if not config.tied:
            self.lm_head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02, generator=generator)

    @property
    def head(self) -> Tensor:
        """The output matrix `[V, d]`; the embedding itself when tied."""
        return self.model.embed_tokens.weight if self.config.tied else self.lm_head.weight

    def forward(
        self, tokens: Tensor, positions: Tensor, attend: Attend, gradient_checkpointing: bool = False, said: Tensor | None = None
    ) -> Tensor:
        """Hidden states `[N, d]` of tokens at these positions that see what `attend` says; or only of those in the rows `said`, `[S, d]`.

        Of other tokens the last layer needs keys and values alone, and computes no more. With `gradient_checkpointing` layers run again in
        the backward pass.
        """
        rotations = rope.rotations(positions, self.config.frequencies, self.config.sharpness)
        x: Tensor = self.model.embed_tokens(tokens)
        for number, layer in enumerate(self.model.layers):
            again = partial(checkpoint, layer, use_reentrant=False, preserve_rng_state=False)  # nothing is drawn in a layer
            last = number == self.config.layers - 1
            x = (again if gradient_checkpointing else layer)(x, rotations, partial(attend, number), said if last else None)
        normed: Tensor = self.model.norm(x)
        return normed

    def forward_packed(
        self, tokens: Tensor, positions: Tensor, nodes: Sequence[Node], gradient_checkpointing: bool = False, said: Rows | None = None
    ) -> Tensor:
        """Hidden states `[P, d]` of the tokens of these nodes, laid end to end; on a CPU only of those `said`, `[S, d]`, if some are."""
        rows = None if said is None or len(said) == len(tokens) else torch.from_numpy(said)
        return self.forward(tokens, positions, within(nodes, said, self.config.windows), gradient_checkpointing, rows)

    def layout(self, tokens: Ids, starts: Sequence[int]) -> Layout:
        """How the sequences of a pack are computed for the least: with what they have in common once, where that pays."""
        return paying(tokens, starts, self.config.dense, self.config.paired)

    def logprobs(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of each target and the entropy it was drawn under: `[N, d], [N] -> [N], [N]`, always `float32`.

        Only rows given here meet the vocabulary, a tile of it at a time (`scoring`).
        """
        return scoring.logprobs(hidden, self.head, targets)

    def logits(self, hidden: Tensor) -> Tensor:
        """`[N, d] -> [N, V]`, always `float32`."""
        return scoring.logits(hidden, self.head)

    @torch.no_grad()
    def nll_excess(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """-log p of each target less what it would be on average, the entropy, and the variance of that: `[N, d], [N] -> [N], [N]`.

        At p = (0.9, 0.1) the entropy is 0.325: the likely target is -0.220 surprising, the other 1.978, and the variance 0.434.
        """
        found = []
        for i in range(0, len(hidden), rows := max(1, LOGITS // self.config.vocabulary)):
            logs = F.log_softmax(self.logits(hidden[i : i + rows]), -1)
            mean, square = ((logs.exp() * logs**power).sum(-1) for power in (1, 2))
            own = logs.gather(-1, targets[i : i + rows].unsqueeze(-1)).squeeze(-1)
            found.append(torch.stack([mean - own, square - mean**2]))
        excess, variance = torch.cat(found, 1)
        return excess, variance
