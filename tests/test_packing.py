"""Packing: everything once, nothing cut, order without effect."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.packing import minibatches, pack
from patchgrad.values import Action, Call, Observation, Place, Sample, Segment, Turn, floats, ids

Spans = list[tuple[int, int]]
spans = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=3)


def sample(shape: Spans, number: int = 0) -> Sample:
    """A sample whose k-th action token has id 1000 * number + k, log-probability -k and advantage k, with every third dropped."""
    turns, count = [], 0
    for context, action in shape:
        names = np.arange(count + 1, count + action + 1)
        count += action
        drawn = Action(ids(1000 * number + names), floats(-names), 0, "", "stop")
        turns.append(Turn(ids(np.zeros(context)), drawn, Call("shell", ""), Observation("", Place()), "state", "parent"))
    order = np.arange(1, count + 1)
    return Sample(Segment(tuple(turns)), floats(order), order % 3 != 0)


def test_the_longest_comes_first_and_the_rest_where_there_is_room() -> None:
    batch = pack([sample([(1, 1)], 0), sample([(3, 2)], 1), sample([(2, 1)], 2)], budget=6)
    assert [pack.starts.tolist() for pack in batch.packs] == [[0, 5], [0, 3, 5]]
    assert batch.packs[1].positions.tolist() == [0, 1, 2, 0, 1]
    assert batch.sequences == 3


def test_a_sample_over_the_budget_is_whole_in_its_own_pack() -> None:
    batch = pack([sample([(9, 9)]), sample([(1, 1)])], budget=4)
    assert [len(pack.tokens) for pack in batch.packs] == [18, 2]


def test_workers_get_packs_of_like_length_within_one_budget() -> None:
    samples = [sample([(length - 1, 1)], length) for length in (9, 7, 6, 5, 2, 2)]
    assert [len(p.tokens) for p in pack(samples, 100).packs] == [31]
    assert [len(p.tokens) for p in pack(samples, 100, workers=2).packs] == [16, 15]
    assert [len(p.tokens) for p in pack(samples[:1], 100, workers=2).packs] == [9]


@given(st.lists(spans, min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_kept_token_is_trained_once_in_any_order(shapes: list[Spans], budget: int, workers: int, random: Random) -> None:
    samples = [sample(shape, number) for number, shape in enumerate(shapes)]
    expected = sorted((1000 * n + int(k), -float(k), float(k)) for n, s in enumerate(samples) for k in s.advantages[s.keep])
    shuffled = list(samples)
    random.shuffle(shuffled)
    for order in (samples, shuffled):
        batch = pack(order, budget, workers=workers)
        found = [(int(p.tokens[i]), float(p.logprobs[i]), float(p.advantages[i])) for p in batch.packs for i in p.mask.nonzero()[0]]
        assert sorted(found) == expected
        assert batch.trained == len(expected)
        assert all(not p.logprobs[~p.mask].any() and not p.advantages[~p.mask].any() for p in batch.packs)
        assert all(len(p.starts) == 2 or p.starts[-1] <= budget for p in batch.packs)


def test_context_tokens_are_trained_on_request_but_for_each_first() -> None:
    batch = pack([sample([(3, 2), (2, 1)])], budget=100, context=0.25)
    assert batch.packs[0].advantages.tolist() == [0, 0.25, 0.25, 1, 2, 0.25, 0.25, 0]
    assert batch.trained == 6


def test_minibatches_are_a_partition_that_the_seed_decides() -> None:
    samples = [sample([(1, 1)], number) for number in range(7)]
    units = [[one] for one in samples]
    parts = minibatches(units, 3, seed=1)
    assert [len(part) for part in parts] == [3, 3, 1]
    assert {id(s) for part in parts for s in part} == {id(s) for s in samples}
    assert [list(map(id, p)) for p in parts] == [list(map(id, p)) for p in minibatches(units, 3, seed=1)]
    assert [list(map(id, p)) for p in parts] != [list(map(id, p)) for p in minibatches(units, 3, seed=2)]


def test_a_minibatch_holds_whole_units() -> None:
    units = [[sample([(1, 1)], 10 * number + i) for i in range(3)] for number in range(5)]
    parts = minibatches(units, 4, seed=0)
    assert [len(part) for part in parts] == [6, 6, 3]
    for unit in units:
        assert sum(any(one is s for s in part) for part in parts for one in unit[:1]) == 1
        assert any(all(any(one is s for s in part) for one in unit) for part in parts)
