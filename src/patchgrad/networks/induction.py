"""An initialisation that can copy: a previous-token head in layer 0, an induction head in layer 1, a pointing head in each later layer.

Small networks learn to repeat what they saw ("after this token came that one") late and suddenly (Olsson et al., arXiv 2209.11895). An
agent needs it from its first turn: paths, names and code are copied from the prompt into commands. Here these heads are written into
the first weights; everything else stays random. A pointing head says whatever token it looks at (Vinyals et al., arXiv 1506.03134); where
it looks is random, and learned. The result is an ordinary checkpoint.

The hidden axis is split at first: feature 0 is the same for every token, the last `head_size` features are empty in the embedding, and
the rest tell tokens apart.
"""

from __future__ import annotations

import torch
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks.decoder import Decoder, Layer, frequencies

FAST = (0.5, 0.25, 0.15, 0.1)  # energy of the previous-token head in the fastest rotary pairs: one peak, at distance one
SLOWEST_TURN = 0.004  # radians a token: pairs slower than this still agree over a thousand tokens and can compare content
GAIN = 2.5
SIGMA = 0.06  # of the embedding; three times the other weights, so that tokens stand out from what random layers add
QUIET = 0.3  # factor on what the random layers write


class Planted:
    """The heads as they were planted. `restore` puts them back: training that does so after each step teaches the rest around them,
    where it would first wear them down."""

    def __init__(self, network: Decoder) -> None:
        size, embedding = network.config.head_size, network.model.embed_tokens.weight
        self._views = [embedding[:, :1], embedding[:, network.config.hidden - size :]]
        for i, layer in enumerate(layers(network)):
            attention = layer.self_attn
            self._views += [attention.v_proj.weight[:size], attention.o_proj.weight[:, :size]]
            if i < 2:
                self._views += [attention.q_proj.weight[:size], attention.k_proj.weight[:size]]
                self._views += [attention.q_norm.weight, attention.k_norm.weight]
        self._values = [view.detach().clone() for view in self._views]

    @torch.no_grad()
    def restore(self) -> None:
        for view, value in zip(self._views, self._values, strict=True):
            view.copy_(value)


@torch.no_grad()
def plant(network: Decoder, seed: int = 0) -> Planted:
    """Write the heads into a fresh network of the Qwen3 family with at least two layers.

    Raises `ConfigError` for other families: without query and key norms the heads' sharpness could not be set.
    """
    config = network.config
    if config.family != "qwen3" or config.layers < 2 or config.hidden < 3 * config.head_size:
        raise ConfigError("induction heads can be planted in a qwen3 network with 2 layers and hidden of at least 3 head sizes")
    generator = torch.Generator().manual_seed(seed)
    size, own = config.head_size, config.hidden - config.head_size
    embedding = network.model.embed_tokens.weight
    embedding *= SIGMA / embedding.std()
    for layer in layers(network):
        layer.self_attn.o_proj.weight *= QUIET
        layer.mlp.down_proj.weight *= QUIET
    embedding[:, 0] = 0.5 * SIGMA * config.hidden**0.5
    embedding[:, own:] = 0.0
    names = _orthonormal(size, own - 1, generator)  # what makes two tokens the same, in `size` numbers
    _previous_token(network, names)
    _induction(network, names, generator)
    for layer in layers(network)[2:]:
        _says_what_it_sees(network, layer, generator)
    return Planted(network)


def _previous_token(network: Decoder, names: Tensor) -> None:
    """Layer 0, head 0: attend one token back, and note that token's name in the empty features."""
    config, attention = network.config, layers(network)[0].self_attn
    size, own = config.head_size, config.hidden - config.head_size
    turn = frequencies(config)[: len(FAST)]
    energy = torch.tensor(FAST).sqrt()
    query, key = torch.zeros(size), torch.zeros(size)
    key[: len(FAST)] = energy
    query[: len(FAST)], query[size // 2 : size // 2 + len(FAST)] = energy * turn.cos(), -energy * turn.sin()
    for projection, vector in ((attention.q_proj, query), (attention.k_proj, key)):
        projection.weight[:size] = 0.0
        projection.weight[:size, 0] = vector
    attention.v_proj.weight[:size] = 0.0
    attention.v_proj.weight[:size, 1:own] = names
    attention.o_proj.weight[:, :size] = 0.0
    attention.o_proj.weight[own:, :size] = SIGMA * torch.eye(size)
    sharp = torch.ones(size)
    sharp[: len(FAST)] = sharp[size // 2 : size // 2 + len(FAST)] = GAIN
    attention.q_norm.weight[:], attention.k_norm.weight[:] = sharp, sharp


def _induction(network: Decoder, names: Tensor, generator: torch.Generator) -> None:
    """Layer 1, head 0: attend to where the token before was the present one, and predict the token that stands there."""
    config, attention = network.config, layers(network)[1].self_attn
    size, own = config.head_size, config.hidden - config.head_size
    pairs = torch.nonzero(frequencies(config) < SLOWEST_TURN).flatten()
    slow = torch.cat([pairs, pairs + size // 2])
    compare = _orthonormal(len(slow), size, generator)
    attention.q_proj.weight[:size] = 0.0
    attention.q_proj.weight[slow, 1:own] = compare @ names
    attention.k_proj.weight[:size] = 0.0
    attention.k_proj.weight[slow, own:] = compare
    sharp = torch.ones(size)
    sharp[slow] = GAIN
    attention.q_norm.weight[:], attention.k_norm.weight[:] = sharp, sharp
    _says_what_it_sees(network, layers(network)[1], generator)


def _says_what_it_sees(network: Decoder, layer: Layer, generator: torch.Generator) -> None:
    """Head 0 of a layer predicts the tokens that it attends to."""
    size, own = network.config.head_size, network.config.hidden - network.config.head_size
    copied = _orthonormal(size, own - 1, generator)
    attention = layer.self_attn
    attention.v_proj.weight[:size] = 0.0
    attention.v_proj.weight[:size, 1:own] = copied
    attention.o_proj.weight[:, :size] = 0.0
    attention.o_proj.weight[1:own, :size] = 6 * SIGMA * copied.T


def _orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """`[rows, columns]` with orthonormal rows."""
    columns_of: Tensor = torch.linalg.qr(torch.randn(columns, rows, generator=generator))[0]
    return columns_of.T


def layers(network: Decoder) -> list[Layer]:
    """The network's blocks, typed."""
    return [layer for layer in network.model.layers if isinstance(layer, Layer)]
