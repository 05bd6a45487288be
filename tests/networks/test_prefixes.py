"""Sequences as a tree: every token in its place, what is shared once, and the same hidden states and gradients."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.networks import blocks
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.prefixes import Layout, Node, apart, cost, paying, together
from patchgrad.values import Ids, ids

TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=8)


def joined(texts: list[list[int]]) -> tuple[Ids, list[int]]:
    return ids([*chain(*texts)]), np.cumsum([0, *map(len, texts)]).tolist()


def spelled(layout: Layout, tokens: Ids) -> list[list[int]]:
    """What stands on the way to each computed token, itself included."""
    starts = np.cumsum([0, *(node.length for node in layout.nodes)]).tolist()
    own = [tokens[layout.first][first:last].tolist() for first, last in pairwise(starts)]
    ways = []
    for node, text in zip(layout.nodes, own, strict=True):
        before = [*chain(*(own[above] for above in node.path))]
        ways += [before + text[: i + 1] for i in range(len(text))]
    return ways


@given(TEXTS, st.integers(1, 4))
def test_each_token_stands_behind_what_stands_before_it_in_its_sequence(texts: list[list[int]], least: int) -> None:
    tokens, starts = joined(texts)
    for layout in (together(tokens, starts, least), apart(starts)):
        ways = spelled(layout, tokens)
        for first, last in pairwise(starts):
            assert [ways[layout.place[i]] for i in range(first, last)] == [tokens[first : i + 1].tolist() for i in range(first, last)]


@given(TEXTS)
def test_what_is_shared_is_computed_once(texts: list[list[int]]) -> None:
    tokens, starts = joined(texts)
    layout = together(tokens, starts)
    assert len(layout.first) == len({tuple(text[: i + 1]) for text in texts for i in range(len(text))})
    assert all(node.length for node in layout.nodes)


@given(TEXTS, st.integers(2, 5))
def test_no_short_run_is_shared(texts: list[list[int]], least: int) -> None:
    layout = together(*joined(texts), least)
    above = {number for node in layout.nodes for number in node.path}
    assert all(layout.nodes[number].length >= least for number in above)


def test_a_tree_as_it_is_told() -> None:
    layout = together(ids([1, 2, 3, 4, 1, 2, 9]), [0, 4, 7])
    assert layout.nodes == (Node(2), Node(2, (0,)), Node(1, (0,)))
    assert layout.place.tolist() == [0, 1, 2, 3, 0, 1, 4]


@pytest.mark.parametrize("least", [3, 1024])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)], ids=str)
def test_hidden_states_and_gradients_are_those_of_separate_sequences(
    heads: tuple[int, int], least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "LEAST", least)
    network = Decoder(DecoderConfig(20, 32, 2, *heads, 8, intermediate=48), 0).double()
    random = np.random.default_rng(0)
    stem, branch = random.integers(0, 20, 13).tolist(), random.integers(0, 20, 6).tolist()
    tails = [random.integers(0, 20, int(n)).tolist() for n in random.integers(1, 9, 6)]
    tokens, starts = joined([*(stem + tail for tail in tails[:3]), *(stem + branch + tail for tail in tails[3:]), branch, stem])
    positions = np.concatenate([np.arange(last - first) for first, last in pairwise(starts)])
    weights = torch.from_numpy(random.normal(size=(len(tokens), 32)))
    found = []
    for layout in (apart(starts), together(tokens, starts)):
        at = torch.from_numpy(layout.first)
        hidden = network.forward_packed(torch.from_numpy(tokens.astype("int64"))[at], torch.from_numpy(positions)[at], layout.nodes)[
            torch.from_numpy(layout.place)
        ]
        found.append((hidden, *torch.autograd.grad((hidden * weights).sum(), list(network.parameters())[:-1], allow_unused=True)))
    assert len(at) < len(tokens) / 2
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-10)


@given(TEXTS, st.data(), st.integers(1, 5), st.sampled_from([3, 1024]), st.booleans())
def test_what_nothing_is_read_from_is_left_out_of_the_last_layer_and_the_rest_is_the_same(
    texts: list[list[int]], data: st.DataObject, multiple: int, least: int, again: bool
) -> None:
    network = Decoder(DecoderConfig(3, 8, 2, 2, 1, 4, intermediate=8), 0).double()
    tokens, starts = joined(texts)
    positions = np.concatenate([np.arange(last - first) for first, last in pairwise(starts)])
    read = np.array(data.draw(st.lists(st.integers(0, len(tokens) - 1))), np.int64)
    weights = torch.randn(len(read), 8, dtype=torch.float64)
    for layout in (apart(starts), together(tokens, starts)):
        stream, places = (torch.from_numpy(one[layout.first].astype("int64")) for one in (tokens, positions))
        said = layout.said(read, multiple)
        assert (np.diff(said) > 0).all()
        assert len(said) % multiple == 0 or len(said) == len(stream)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "LEAST", least)
            whole = network.forward_packed(stream, places, layout.nodes)[layout.place[read]]
            some = network.forward_packed(stream, places, layout.nodes, again, said)[np.searchsorted(said, layout.place[read])]
        own = list(network.parameters())
        told = [(one, *torch.autograd.grad((one * weights).sum(), own)) for one in (whole, some)]
        assert all(torch.allclose(one, other, atol=1e-10) for one, other in zip(*told, strict=True))


def test_a_tree_is_taken_where_it_costs_less() -> None:
    random = np.random.default_rng(0)
    stem, tails = random.integers(0, 99, 400).tolist(), [random.integers(100 * i, 100 * i + 99, 40).tolist() for i in range(1, 9)]
    siblings, strangers = joined([stem + tail for tail in tails]), joined(tails)
    small, large = 400_000.0, 400_000_000.0
    assert len(paying(*siblings, small, 400).first) == 400 + 8 * 40
    assert paying(*strangers, small, 400).nodes == apart(strangers[1]).nodes
    hinted = joined([[7, 7, *tail] for tail in tails])
    assert paying(*hinted, small, 400).nodes == apart(hinted[1]).nodes
    assert len(paying(*hinted, large, 400).first) == 2 + 8 * 40
    assert cost(paying(*siblings, small, 400), small, 400) < 0.4 * cost(apart(siblings[1]), small, 400)


def test_attention_on_a_cpu_rounds_nothing_more_than_what_it_is_given() -> None:
    q, k, v = (torch.randn(300, heads, 16).bfloat16() for heads in (4, 2, 2))
    pieces = tuple(blocks.triangle(0, 0, 300))
    assert torch.equal(blocks.seen(q, k, v, pieces), blocks.seen(q.float(), k.float(), v.float(), pieces).bfloat16())


@given(st.lists(st.integers(1, 90), min_size=1, max_size=4), st.integers(1, 100))
def test_a_padded_layout_computes_the_same_and_a_multiple_of_tokens(lengths: list[int], multiple: int) -> None:
    layout = apart([0, *np.cumsum(lengths).tolist()])
    wider = layout.padded(multiple)
    assert len(wider.first) == sum(node.length for node in wider.nodes)
    assert len(wider.first) % multiple == 0
    assert len(wider.first) - len(layout.first) < multiple
    assert np.array_equal(wider.first[: len(layout.first)], layout.first)
    assert wider.place is layout.place
    assert wider.nodes[: len(layout.nodes)] == layout.nodes
