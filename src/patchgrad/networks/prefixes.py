"""What the sequences of a pack have in common, so that it is computed once.

Attempts at a task share its statement, and often their first turns; forks share everything before them. A pack's sequences are laid out
as a tree: a node is a run of tokens, and its tokens attend to those of its ancestors and to their own predecessors in it. Hidden states
are those of the separate sequences up to rounding, and so are gradients: a token that stands in three sequences has the sum of what they
say of it. (The idea is that of prefix caching, as in SGLang's radix tree, arXiv 2312.07104, with a backward pass.)

    a b c d          node 0: a b          physical tokens  a b c d x
    a b x            node 1: c d after 0  `place`          0 1 2 3 0 1 4
                     node 2: x after 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile

import numpy as np
import numpy.typing as npt

from patchgrad.values import Ids, common

NEARLY = 0.9  # of all tokens: to leave the others out costs more than they do
CALL = 3e6  # multiplications in the time that one call of attention takes whatever its size


@dataclass(frozen=True, slots=True)
class Node:
    """A run of `length` tokens that follow those of the nodes in `path`, which are told by their numbers, the root first."""

    length: int
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Sequences as a tree. The tokens of the nodes, one node after the other, are the `P` that are computed; of the pack's `T` tokens the
    first that is computed in each place is `first [P]`, and token i of the pack is computed at `place[i]`."""

    nodes: tuple[Node, ...]
    first: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]

    def reach(self, node: Node) -> int:
        """The tokens that stand before a node's in its sequences."""
        return sum(self.nodes[above].length for above in node.path)

    def said(self, tokens: npt.NDArray[np.int64], multiple: int = 1) -> npt.NDArray[np.int64]:
        """Where these of the pack's tokens are computed, each place once, ascending; with other places, if they are to be a multiple, and
        with all where few are others.

        Tokens 4 and 5 of the pack above, and 1: `[0, 1]`, and with a multiple of 3 `[0, 1, 2]`.
        """
        places = np.unique(self.place[tokens])
        if len(places) > NEARLY * len(self.first):
            return np.arange(len(self.first))
        others = np.setdiff1d(np.arange(len(self.first)), places)
        return np.sort(np.append(places, others[: -len(places) % multiple]))

    def padded(self, multiple: int) -> Layout:
        """The same with as many tokens as a multiple of that: behind them stand copies of the first one, which no place is at.

        Of 130 tokens, with 64: 192, of which the last 62 are a node of their own.
        """
        more = -len(self.first) % multiple
        return Layout((*self.nodes, Node(more)), np.append(self.first, np.zeros(more, np.int64)), self.place) if more else self


def apart(starts: Sequence[int]) -> Layout:
    """Each sequence for itself: a root per sequence, and every token where it is."""
    everywhere = np.arange(starts[-1])
    return Layout(tuple(Node(last - first) for first, last in pairwise(starts)), everywhere, everywhere)


def together(tokens: Ids, starts: Sequence[int], least: int = 1) -> Layout:
    """The tree of the sequences `tokens[starts[i]:starts[i + 1]]`, where no run of fewer than `least` tokens is shared.

    Sequences are sorted, so that those with a long common beginning are neighbours; a sequence then leaves the path of the one before it
    where the two part.
    """
    texts = [tokens[first:last] for first, last in pairwise(starts)]
    order = sorted(range(len(texts)), key=lambda i: texts[i].astype(">u4").tobytes())
    commons = [0, *(common(texts[a], texts[b]) for a, b in pairwise(order)), 0]
    nodes: list[Node] = []
    firsts: list[npt.NDArray[np.int64]] = []
    place = np.zeros(starts[-1], np.int64)
    path: list[tuple[int, int]] = []  # the nodes of the sequence before, with where each ends in it
    size = 0

    def shared(until: int, part: tuple[int, int]) -> bool:
        node, end = part
        return end <= until and nodes[node].length >= least

    for index, number in enumerate(order):
        text, begin = texts[number], starts[number]
        kept = [*takewhile(partial(shared, commons[index]), path)]
        done = kept[-1][1] if kept else 0
        cuts = _cuts(commons[index + 1 :], done, len(text), least)
        if kept:
            before = starts[order[index - 1]]
            place[begin : begin + done] = place[before : before + done]
        for end in cuts:
            nodes.append(Node(end - done, tuple(node for node, _ in kept)))
            firsts.append(np.arange(begin + done, begin + end))
            place[begin + done : begin + end] = np.arange(size, size + end - done)
            kept.append((len(nodes) - 1, end))
            size, done = size + end - done, end
        path = kept
    return Layout(tuple(nodes), np.concatenate(firsts), place)


def paying(tokens: Ids, starts: Sequence[int], dense: float, attention: float) -> Layout:
    """The layout that costs less: the tree of the sequences, or each for itself.

    `dense` are the multiplications that a layer makes with each token, `attention` those for each pair of tokens of which one sees the
    other.
    """
    separate, shared = apart(starts), together(tokens, starts, least=1 + int(CALL / dense))
    return min(separate, shared, key=lambda layout: cost(layout, dense, attention))


def cost(layout: Layout, dense: float, attention: float) -> float:
    """Multiplications of one layer, what a call costs besides among them."""
    return multiplications(layout, dense, attention) + len(layout.nodes) * CALL


def multiplications(layout: Layout, dense: float, attention: float) -> float:
    """Those of one layer: a node of n tokens after p others sees n^2 / 2 pairs of its own and n p of theirs."""
    pairs = sum(node.length * (node.length / 2 + layout.reach(node)) for node in layout.nodes)
    return len(layout.first) * dense + pairs * attention


def _cuts(commons: Sequence[int], done: int, length: int, least: int) -> list[int]:
    """Where the rest of a sequence is cut: wherever a later one leaves it, the last cut being its end.

    `commons` are the common prefixes of this sequence's successors, pair by pair: what the k-th still has in common with this one is
    the least of the first k.
    """
    found: list[int] = []
    shortest = length
    for value in commons:
        shortest = min(shortest, value)
        if shortest <= done:
            break
        found.append(shortest)
    cuts = [done]
    for cut in sorted({*found, length}):
        if cut > cuts[-1] and (cut == length or cut - cuts[-1] >= least):
            cuts.append(cut)
    return cuts[1:]
