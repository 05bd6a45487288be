"""An initialisation that can copy and point.

Small networks learn to repeat what they saw ("after this token came that one") late and suddenly (Olsson et al., arXiv 2209.11895). An
agent needs it from its first turn: paths, names and code are copied from the prompt into commands. Here such heads are written into the
first weights; everything else stays random. The heads of layer 0, at most three, note the tokens before, and an induction head in layer 1
repeats what followed the same ones: one alone, a `/` or a syllable, stands in a path more than once. In each later layer head 0
says whatever token it looks at, and learns where to look (Vinyals et al., arXiv 1506.03134); and where demonstrations show it, head 1 of
layer 1 points: after a token that announces an edit it looks at the tokens in sight that edits begin with. Head 2 there avoids: an edit
of the same text is not made twice.

The result is an ordinary checkpoint. The hidden axis is split at first: feature 0 is the same for every token, features 1 and 2 tell
which tokens are pointed at and which one announces it, the last `head_size` features are empty in the embedding, and the rest tell
tokens apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks.decoder import Decoder, Layer
from patchgrad.networks.rounding import root
from patchgrad.networks.threads import one_thread

FAST = (0.5, 0.25, 0.15, 0.1)  # energy of the heads that look back in the fastest rotary pairs: one peak, at their distance
FARTHER = 0.7  # how much each token farther back counts beside the one after it: among places alike so far, it decides
BACK = 3  # tokens that are compared; as many heads of layer 0 look back
SLOWEST_TURN = 0.004  # radians a token: pairs slower than this still agree over a thousand tokens and can compare content
GAIN = 2.5
MARKS = 3  # features in front that do not tell tokens apart
SIGMA = 0.06  # of the embedding; three times the other weights, so that tokens stand out from what random layers add
REPEATS, SAYS, POINTS = 15.0, 6.0, 120.0  # how loudly heads say what they see: induction, later layers, and the pointing one, seldom heard
AVOIDS = 60.0  # how loudly the head that avoids says what not to say: of three earlier edits each has a third of it
UNDECIDED = 1.4  # between one match, which every quote is, and two
LOUD = 1.7  # factor on the embeddings of what is pointed at: a vector of fixed length that holds several tokens says each more softly
QUIET = 0.3  # factor on what the random layers write


@dataclass(frozen=True, slots=True)
class Pointing:
    """What demonstrations point at: behind the token `before` and then `announced` comes one of `tokens`; `rest` is looked at else."""

    before: int
    announced: int
    tokens: tuple[int, ...]
    rest: int


class Planted:
    """The heads as they were planted, to be held while the rest is trained (`trainers.Held`), which would first wear them down.

    So sharp as they are, next to all of a gradient's norm is theirs: `still` takes them out of it before it is clipped to a norm.
    `restore` puts them back after a step, since a step that orthogonalises a matrix moves all of it.
    """

    def __init__(self, network: Decoder) -> None:
        size, embedding = network.config.head_size, network.model.embed_tokens.weight
        own, points = network.config.hidden - size, bool(embedding[:, 1].any())
        everywhere = slice(None)
        held: list[tuple[Tensor, Any]] = [(embedding, (everywhere, slice(MARKS))), (embedding, (everywhere, slice(own, None)))]
        # Tokens that stand for each other, as operators do, grow alike in training, and then none of them can be pointed out. What
        # announces an edit is held as well: heads know it by what its embedding was.
        held.append((embedding, embedding[:, 1:MARKS].any(1).nonzero().flatten()))
        for i, layer in enumerate(layers(network)):
            attention, writes = layer.self_attn, (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight)
            heads = slice(0, size * min(network.config.heads, 3 if i == 0 or (i == 1 and points) else 1))
            keys = slice(0, size * (1 + _keys_of(network, min(heads.stop // size, network.config.heads) - 1)))
            held += [(attention.v_proj.weight, keys), (attention.o_proj.weight, (everywhere, heads))]
            if i < 2:
                held += [(attention.q_proj.weight, heads), (attention.k_proj.weight, keys)]
                held += [(norm.weight, everywhere) for norm in (attention.q_norm, attention.k_norm, layer.input_layernorm)]
                held += [(weight, slice(MARKS)) for weight in writes]
            if i == 0:
                held += [(weight, slice(own, None)) for weight in writes]
        names = {id(parameter): name for name, parameter in network.named_parameters()}
        self._held = [(names[id(parameter)], parameter, at, parameter[at].detach().clone()) for parameter, at in held]

    def still(self, gradients: Mapping[str, Tensor]) -> None:
        for name, _, at, _ in self._held:
            if name in gradients:
                gradients[name][at] = 0.0

    @torch.no_grad()
    def restore(self) -> None:
        for _, parameter, at, value in self._held:
            parameter[at] = value


def planted(network: Decoder) -> Planted | None:
    """The planted heads of a network that has them, fresh or from a checkpoint: its embedding is empty where they write."""
    config = network.config
    empty = network.model.embed_tokens.weight[:, config.hidden - config.head_size :]
    return None if empty.any() else Planted(network)


@one_thread()
@torch.no_grad()
def plant(network: Decoder, seed: int = 0, pointing: Pointing | None = None) -> None:
    """Write the heads into a fresh network of the Qwen3 family with at least two layers.

    Raises `ConfigError` for other families: without query and key norms the heads' sharpness could not be set.
    """
    config = network.config
    if config.family != "qwen3" or min(config.layers, config.heads) < 2 or config.hidden < 3 * config.head_size:
        raise ConfigError("induction heads can be planted in a qwen3 network with 2 layers, 2 heads and hidden of at least 3 head sizes")
    generator = torch.Generator().manual_seed(seed)
    size, own = config.head_size, config.hidden - config.head_size
    embedding = network.model.embed_tokens.weight
    embedding *= SIGMA / embedding.std()
    for i, layer in enumerate(layers(network)):
        for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight):
            weight *= QUIET
            weight[:MARKS] = 0.0
            if i == 0:
                weight[own:] = 0.0
    mark = 0.5 * SIGMA * config.hidden**0.5
    embedding[:, 0] = mark
    embedding[:, 1:MARKS] = 0.0
    embedding[:, own:] = 0.0
    names = _orthonormal(size, own - MARKS, generator)  # what makes two tokens the same, in `size` numbers
    farther = FARTHER * _orthonormal(size, size, generator)  # a rotation for each token farther back tells the places apart
    for distance in range(1, min(BACK, config.heads) + 1):
        _looking_back(network, distance, names, torch.linalg.matrix_power(farther, distance - 1))
    points = config.heads == config.kv_heads > 1
    _induction(network, names, farther, pointing if points else None, generator)
    for layer in layers(network)[2:]:
        _says_what_it_sees(network, layer, 0, generator, SAYS)
    if pointing is not None and points:
        embedding[list(pointing.tokens), MARKS:own] *= LOUD
        embedding[list(pointing.tokens), 1] = mark
        embedding[pointing.before, 1] = -mark  # by which it is known in a checkpoint, too
        embedding[pointing.announced, 2] = mark
        _pointing(network, pointing, names, generator)
        if config.heads > 2:
            _not_again(network, pointing, names, farther, generator)


def _looking_back(network: Decoder, distance: int, names: Tensor, noted: Tensor) -> None:
    """Layer 0, head `distance` - 1: attend that many tokens back, and add that token's name, as `noted`, to the empty features."""
    config, attention = network.config, layers(network)[0].self_attn
    size, own = config.head_size, config.hidden - config.head_size
    turn = distance * config.frequencies[: len(FAST)]
    energy = root(torch.tensor(FAST))
    query, key = torch.zeros(size), torch.zeros(size)
    key[: len(FAST)] = energy
    query[: len(FAST)], query[size // 2 : size // 2 + len(FAST)] = energy * turn.cos(), -energy * turn.sin()
    asks = slice((distance - 1) * size, distance * size)
    holds = slice(size * _keys_of(network, distance - 1), size * (1 + _keys_of(network, distance - 1)))
    for projection, rows, vector in ((attention.q_proj, asks, query), (attention.k_proj, holds, key)):
        projection.weight[rows] = 0.0
        projection.weight[rows, 0] = vector
    attention.v_proj.weight[holds] = 0.0
    attention.v_proj.weight[holds, MARKS:own] = names
    attention.o_proj.weight[:, asks] = 0.0
    attention.o_proj.weight[own:, asks] = SIGMA * noted
    sharp = torch.ones(size)
    sharp[: len(FAST)] = sharp[size // 2 : size // 2 + len(FAST)] = GAIN
    attention.q_norm.weight[:], attention.k_norm.weight[:] = sharp, sharp


def _induction(network: Decoder, names: Tensor, farther: Tensor, pointing: Pointing | None, generator: torch.Generator) -> None:
    """Layer 1, head 0: attend to where the tokens before were the last ones here, and predict the token that stands there.

    But not after an announcement, where it would repeat the edits made so far: there it looks at `rest`.
    """
    config, attention = network.config, layers(network)[1].self_attn
    size, own = config.head_size, config.hidden - config.head_size
    pairs = torch.nonzero(config.frequencies < SLOWEST_TURN).flatten()
    rest, slow = pairs[0], torch.cat([pairs[1:], pairs[1:] + size // 2])
    compare = _orthonormal(len(slow), size, generator)
    attention.q_proj.weight[:size] = 0.0
    attention.q_proj.weight[slow, MARKS:own] = compare @ names
    attention.q_proj.weight[slow, own:] = compare @ farther
    attention.k_proj.weight[:size] = 0.0
    attention.k_proj.weight[slow, own:] = compare
    sharp = torch.ones(size)
    sharp[slow] = GAIN
    if pointing is not None:
        sharp[rest] = GAIN
        attention.q_proj.weight[rest, 2] = 30.0
        attention.k_proj.weight[rest, MARKS:own] = 4.0 * _direction(network, pointing.rest)
    attention.q_norm.weight[:], attention.k_norm.weight[:] = sharp, sharp
    _says_what_it_sees(network, layers(network)[1], 0, generator, REPEATS, pointing.rest if pointing else None)


def _not_again(network: Decoder, pointing: Pointing, names: Tensor, farther: Tensor, generator: torch.Generator) -> None:
    """Layer 1, head 2: attend to what stood here in earlier edits, and say it *less*; elsewhere, and in a first edit, look at `rest`.

    Where an edit begins these are the texts that were changed before. Where its new text begins they are what the same old text was changed
    to: that stands two tokens before the announcement there, and three before what it became.
    """
    config, attention, embedding = network.config, layers(network)[1].self_attn, network.model.embed_tokens.weight
    size, own = config.head_size, config.hidden - config.head_size
    pairs = torch.nonzero(config.frequencies < SLOWEST_TURN / 4).flatten()
    quote, rest, *free = torch.cat([pairs, pairs + size // 2]).tolist()
    olds = torch.stack([_named(network, names, token) for token in pointing.tokens[: len(free) - 1]], 1)
    opening, mark = (_named(network, names, token)[:, None] for token in (pointing.before, pointing.announced))
    places = free[: olds.shape[1] + 1]  # a feature of the head for each old text, and one for where an edit begins
    energy = embedding[pointing.announced].square().sum() + mark.square().sum() * (1 + FARTHER**2 + FARTHER**4)
    unit = float(root(energy / config.hidden))  # what the norm divides by
    flag = unit / float(embedding[pointing.announced, 2])
    # Where a quote ends in a space, one announcement stands before another: where else it is noted must not be taken for an old text.
    here = unit * torch.linalg.pinv(torch.cat([farther @ olds, opening, mark, farther @ farther @ mark], 1))[:-1]
    there = unit * torch.linalg.pinv(torch.cat([farther @ farther @ olds, farther @ opening, mark, farther @ mark], 1))[:-1]
    query, key = torch.zeros(size, config.hidden), torch.zeros(size, config.hidden)
    query[places, own:], key[places, own:], key[quote, own:] = here[:-1], there[:-1], there[-1]
    query[quote, 2], query[rest, 0], query[rest, 2] = flag, 30.0 * flag, (UNDECIDED - 30.0) * flag
    key[rest, MARKS:own] = unit * _direction(network, pointing.rest) / float(embedding[pointing.rest, MARKS:own].norm())
    attention.q_proj.weight[2 * size : 3 * size], attention.k_proj.weight[2 * size : 3 * size] = query, key
    _says_what_it_sees(network, layers(network)[1], 2, generator, -AVOIDS, pointing.rest)


def _pointing(network: Decoder, pointing: Pointing, names: Tensor, generator: torch.Generator) -> None:
    """Layer 1, head 1: after the announcing token attend to those that are pointed at, and else to `rest`, which says nothing.

    A token that stands behind an announcement itself, as in an earlier edit, is left out: it need not be in the file any more.
    """
    config, attention = network.config, layers(network)[1].self_attn
    size, own = config.head_size, config.hidden - config.head_size
    # The slowest rotary pairs compare content at any distance.
    here, quoted, still, ballast, idle = config.frequencies.argsort()[:5].tolist()
    query, key = torch.zeros(size, config.hidden), torch.zeros(size, config.hidden)
    query[still, 0], query[idle, 0], query[quoted, 2] = 1.5, 12.0, -1.5
    before, loud = _noted(network, names, pointing.before)
    query[here, 0], query[here, 2] = -2.0, 2.0  # with the token before it 2 marks, with either alone none
    query[here, own:] = 2.0 * float(network.model.embed_tokens.weight[0, 0]) / loud * before
    key[here, 1], key[ballast, 0] = 8.0, 4.0
    key[quoted, own:] = 4.0 * _noted(network, names, pointing.announced)[0]
    key[still, MARKS:own] = 4.0 * _direction(network, pointing.rest)
    attention.q_proj.weight[size : 2 * size], attention.k_proj.weight[size : 2 * size] = query, key
    _says_what_it_sees(network, layers(network)[1], 1, generator, POINTS, pointing.rest)


def _says_what_it_sees(network: Decoder, layer: Layer, head: int, generator: torch.Generator, gain: float, rest: int | None = None) -> None:
    """A head predicts the tokens that it attends to; of `rest`, where it looks when it has nothing to say, it says nothing."""
    size, own = network.config.head_size, network.config.hidden - network.config.head_size
    copied = _orthonormal(size, own - MARKS, generator)
    if rest is not None:
        nothing = _direction(network, rest)
        copied = copied - (copied @ nothing)[:, None] * nothing
    attention, rows = layer.self_attn, slice(head * size, (head + 1) * size)
    attention.v_proj.weight[rows] = 0.0
    attention.v_proj.weight[rows, MARKS:own] = copied
    attention.o_proj.weight[:, rows] = 0.0
    attention.o_proj.weight[MARKS:own, rows] = gain * SIGMA * copied.T


def _keys_of(network: Decoder, head: int) -> int:
    """Which keys and values a head reads; several share them where there are fewer than heads."""
    return head * network.config.kv_heads // network.config.heads


def _named(network: Decoder, names: Tensor, token: int) -> Tensor:
    """A token's name: what a head that looks back at it adds to the empty features."""
    embedding = network.model.embed_tokens.weight[token]
    return SIGMA * names @ (embedding / root(embedding.square().mean()))[MARKS : network.config.hidden - network.config.head_size]


def _noted(network: Decoder, names: Tensor, token: int) -> tuple[Tensor, float]:
    """How the previous-token head notes a token: the direction, and how far it goes."""
    note = _named(network, names, token)
    return note / note.norm(), float(note.norm())


def _direction(network: Decoder, token: int) -> Tensor:
    """The unit vector of what tells a token apart."""
    own = network.config.hidden - network.config.head_size
    return torch.nn.functional.normalize(network.model.embed_tokens.weight[token, MARKS:own], dim=0)


def _orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """`[rows, columns]` with orthonormal rows."""
    columns_of: Tensor = torch.linalg.qr(torch.randn(columns, rows, generator=generator))[0]
    return columns_of.T


def layers(network: Decoder) -> list[Layer]:
    """The network's blocks, typed."""
    return [layer for layer in network.model.layers if isinstance(layer, Layer)]
