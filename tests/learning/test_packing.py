"""Packing: everything once, nothing cut, order without effect."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attempts import alike

from patchgrad.contracts import Aggregate
from patchgrad.errors import ConfigError
from patchgrad.learning.aggregation import (
    group_mean_token_mean,
    seq_mean_token_mean,
    seq_mean_token_sum,
    seq_mean_token_sum_norm,
    token_mean,
)
from patchgrad.learning.packing import minibatches, pack, scored
from patchgrad.networks.prefixes import together
from patchgrad.values import Action, Batch, Call, Floats, MicroBatch, Observation, Sample, Segment, ToolState, Turn, floats, ids

Spans = list[tuple[int, int]]
spans = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=3)


def sample(shape: Spans, number: int = 0) -> Sample:
    """A sample whose k-th action token has id 1000 * number + k, log-probability -k and advantage k, with every third dropped."""
    turns, count = [], 0
    for context, action in shape:
        names = np.arange(count + 1, count + action + 1)
        count += action
        drawn = Action(ids(1000 * number + names), floats(-names), 0, "", "stop")
        turns.append(Turn(ids(np.zeros(context)), drawn, Call("shell", ""), Observation("", ToolState()), "state", "parent"))
    order = np.arange(1, count + 1)
    return Sample(Segment(tuple(turns)), floats(order), order % 3 != 0, str(number), str(number // 2))


def distinct(*packs: MicroBatch) -> int:
    """The tokens that these packs compute, each with what its sequences have in common once."""
    return sum(len(together(p.tokens, p.starts.tolist()).first) for p in packs)


def test_the_longest_comes_first_and_the_rest_where_there_is_room() -> None:
    batch = pack(alike([sample([(1, 1)], 0), sample([(3, 2)], 1), sample([(2, 1)], 2)]), budget=6)
    assert [pack.starts.tolist() for pack in batch.micro_batches] == [[0, 5], [0, 3, 5]]
    assert batch.micro_batches[1].positions.tolist() == [0, 1, 2, 0, 1]
    assert batch.sequences == 3


def test_a_sample_over_the_budget_is_whole_in_its_own_pack() -> None:
    batch = pack(alike([sample([(9, 9)]), sample([(1, 1)])]), budget=4)
    assert [len(pack.tokens) for pack in batch.micro_batches] == [18, 2]


def test_workers_get_packs_of_like_length_within_one_budget() -> None:
    samples = alike([sample([(length - 1, 1)], length) for length in (9, 7, 6, 5, 2, 2)])
    assert [len(p.tokens) for p in pack(samples, 100).micro_batches] == [31]
    assert [len(p.tokens) for p in pack(samples, 100, workers=2).micro_batches] == [16, 15]
    assert [len(p.tokens) for p in pack(samples[:1], 100, workers=2).micro_batches] == [9]


@given(st.lists(spans, min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_kept_token_is_trained_once_in_any_order(shapes: list[Spans], budget: int, workers: int, random: Random) -> None:
    samples = [sample(shape, number) for number, shape in enumerate(shapes)]
    expected = sorted((1000 * n + int(k), -float(k), float(k)) for n, s in enumerate(samples) for k in s.advantages[s.keep])
    shuffled = list(samples)
    random.shuffle(shuffled)
    for order in (samples, shuffled):
        batch = pack(alike(order), budget, workers=workers)
        found = [(int(p.tokens[i]), float(p.sampled[i]), float(p.advantages[i])) for p in batch.micro_batches for i in p.mask.nonzero()[0]]
        assert sorted(found) == expected
        assert batch.trained == len(expected)
        for name in ("sampled", "old", "reference", "advantages", "weights"):
            assert not any(getattr(p, name)[~p.mask].any() for p in batch.micro_batches)
        assert all(len(p.starts) == 2 or distinct(p) <= budget for p in batch.micro_batches)


def test_what_begins_alike_lies_in_one_pack() -> None:
    """Two groups of four whose members share twenty tokens: by length alone each pack would have some of both."""
    groups = [[said([name] * 20 + [100 * name + member] * (member + 1)) for member in range(4)] for name in (1, 2)]
    mixed = [one for pair in zip(*groups, strict=True) for one in pair]
    for workers in (1, 2):
        batch = pack(alike(mixed), 30, workers=workers)
        assert [{int(p.tokens[start]) for start in p.starts[:-1]} for p in batch.micro_batches] == [{1}, {2}]
        assert [distinct(p) for p in batch.micro_batches] == [30, 30]


@given(st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=9), min_size=1, max_size=9), st.integers(1, 30), st.integers(1, 3))
def test_no_worker_computes_more_than_if_packs_were_made_by_length(texts: list[list[int]], budget: int, workers: int) -> None:
    samples = alike([said(text) for text in texts])
    packs = pack(samples, budget, workers=workers).micro_batches
    assert sorted(tuple(part.tolist()) for p in packs for part in np.split(p.tokens, p.starts[1:-1])) == sorted(map(tuple, texts))
    assert all(len(p.starts) == 2 or distinct(p) <= budget for p in packs)
    loads = [sum(map(len, texts))] if workers == 1 else dealt([len(text) for text in texts], workers)
    if budget >= sum(map(len, texts)):
        assert max(distinct(*packs[first::workers]) for first in range(workers)) <= max(loads)


def said(tokens: Sequence[int]) -> Sample:
    """A sample of these tokens, of which the last was sampled."""
    drawn = Action(ids(tokens[-1:]), floats([-1.0]), 0, "", "stop")
    turn = Turn(ids(tokens[:-1]), drawn, Call("shell", ""), Observation("", ToolState()), "state", "parent")
    return Sample(Segment((turn,)), floats([1.0]), np.array([True]), "a", "g")


def dealt(lengths: Sequence[int], workers: int) -> list[int]:
    """Longest first, each to whoever has least."""
    loads = [0] * workers
    for length in sorted(lengths, reverse=True):
        loads[loads.index(min(loads))] += length
    return loads


def test_context_tokens_are_trained_on_request_but_for_each_first() -> None:
    batch = pack(alike([sample([(3, 2), (2, 1)])]), budget=100, context=0.25)
    assert batch.micro_batches[0].advantages.tolist() == [0, 0.25, 0.25, 1, 2, 0.25, 0.25, 0]
    assert batch.trained == 6


def test_a_sample_left_as_sampled_has_its_log_probabilities_everywhere_and_weighs_one() -> None:
    (packed,) = pack(alike([sample([(2, 4)])]), budget=100).micro_batches
    for name in ("sampled", "old", "reference"):
        assert getattr(packed, name).tolist() == [0, 0, -1, -2, 0, -4]
    assert packed.weights.tolist() == [0, 0, 1, 1, 0, 1]


def cost(token: int) -> float:
    """Something that each token costs."""
    return math.sin(token) + 1.5


def loss(batch: Batch) -> float:
    """As a trainer adds it up."""
    weighed = (p.weights[i] * cost(int(p.tokens[i])) for p in batch.micro_batches for i in p.mask.nonzero()[0])
    return float(sum(weighed) / batch.trained)


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def per(samples: Sequence[Sample], owner: Callable[[Sample], str]) -> list[list[float]]:
    """The costs of trained tokens, a list for each owner, straight from the segments."""
    found: dict[str, list[float]] = {}
    for one in samples:
        actions = one.segment.tokens()[one.segment.actions()]
        found.setdefault(owner(one), []).extend(cost(int(token)) for token in actions[one.trained])
    return [costs for costs in found.values() if costs]


NAIVE: dict[str, tuple[Aggregate, Callable[[Sequence[Sample]], float]]] = {
    "token mean": (token_mean, lambda samples: mean(c for costs in per(samples, lambda one: one.attempt) for c in costs)),
    "seq-mean-token-mean": (seq_mean_token_mean, lambda samples: mean(mean(costs) for costs in per(samples, lambda one: one.attempt))),
    "seq-mean-token-sum": (seq_mean_token_sum, lambda samples: mean(sum(costs) for costs in per(samples, lambda one: one.attempt))),
    "seq-mean-token-sum-norm": (
        seq_mean_token_sum_norm(7),
        lambda samples: mean(sum(costs) / 7 for costs in per(samples, lambda one: one.attempt)),
    ),
    "group-mean-token-mean": (group_mean_token_mean, lambda samples: mean(mean(costs) for costs in per(samples, lambda one: one.group))),
}


@pytest.mark.parametrize(("aggregate", "expected"), NAIVE.values(), ids=NAIVE)
@given(shapes=st.lists(spans, min_size=1, max_size=6), owners=st.integers(1, 6), budget=st.integers(1, 40), workers=st.integers(1, 3))
def test_an_aggregate_is_its_formula_however_the_batch_is_packed(
    aggregate: Aggregate, expected: Callable[[Sequence[Sample]], float], shapes: list[Spans], owners: int, budget: int, workers: int
) -> None:
    # several samples are of one attempt, and several attempts of one group
    batch = [replace(sample(s, n), attempt=str(n % owners), group=str(n % owners % 2)) for n, s in enumerate(shapes)]
    packed = pack(alike(batch), budget, workers=workers, aggregate=aggregate)
    if packed.trained:
        assert loss(packed) == pytest.approx(expected(batch), rel=1e-5)
        assert loss(pack(alike(batch[::-1]), 1000, aggregate=aggregate)) == pytest.approx(expected(batch), rel=1e-5)


def test_two_attempts_of_2_and_8_tokens_that_cost_1_and_2() -> None:
    every = [replace(sample([(1, size)], n), keep=np.ones(size, bool)) for n, size in enumerate((2, 8))]
    found = []
    for aggregate in (token_mean, seq_mean_token_mean, seq_mean_token_sum, seq_mean_token_sum_norm(10)):
        packs = pack(alike(every), 100, aggregate=aggregate).micro_batches
        found.append(sum(float(p.weights[i]) * (1 + p.tokens[i] // 1000) for p in packs for i in p.mask.nonzero()[0]) / 10)
    assert found == pytest.approx([1.8, 1.5, 9.0, 0.9])


@pytest.mark.parametrize("aggregate", [aggregate for aggregate, _ in NAIVE.values()], ids=NAIVE)
def test_what_is_masked_weighs_as_what_is_not_there(aggregate: Aggregate) -> None:
    turn, more = (sample([(2, 3)], n).segment.turns[0] for n in (0, 1))
    masked = Sample(Segment((turn, more)), floats(np.ones(6)), np.arange(6) < 3, "a", "g")
    shown = replace(
        more, context=ids(np.concatenate([more.context, more.action.token_ids])), action=Action(ids([]), floats([]), 0, "", "stop")
    )
    deleted = Sample(Segment((turn, shown)), floats(np.ones(3)), np.ones(3, bool), "a", "g")
    other, silent = sample([(1, 4)], 7), replace(sample([(1, 4)], 8), keep=np.zeros(4, bool))
    with_mask, without = (pack(alike(some), 100, aggregate=aggregate) for some in ([masked, other, silent], [deleted, other]))
    assert with_mask.trained == without.trained
    for name in ("tokens", "sampled", "old", "advantages", "weights"):
        one, two = (getattr(b.micro_batches[0], name)[b.micro_batches[0].mask] for b in (with_mask, without))
        assert one.tolist() == two.tolist()


@pytest.mark.parametrize("aggregate", [aggregate for aggregate, _ in NAIVE.values()], ids=NAIVE)
def test_a_batch_of_nothing_weighs_nothing(aggregate: Aggregate) -> None:
    assert pack([], 100, aggregate=aggregate).trained == 0
    silent = replace(sample([(1, 4)]), keep=np.zeros(4, bool))
    assert not pack(alike([silent]), 100, aggregate=aggregate).micro_batches[0].weights.any()
    with pytest.raises(ConfigError, match="must be above 0"):
        seq_mean_token_sum_norm(0)


@given(st.lists(spans, min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 3))
def test_a_score_comes_back_to_the_sample_that_it_is_of(shapes: list[Spans], budget: int, workers: int) -> None:
    batch = [sample(shape, number) for number, shape in enumerate(shapes)]

    def score(asked: Batch) -> list[Floats]:
        return [floats(np.where(p.mask, -p.tokens / 8.0, 0.0)) for p in asked.micro_batches]

    for one, found in zip(batch, scored(batch, score, budget, workers), strict=True):
        own = one.segment.tokens()[one.segment.actions()]
        assert found.tolist() == np.where(one.trained, -own / 8.0, one.segment.logprobs()).tolist()


def test_an_action_that_opens_its_sequence_is_not_trained() -> None:
    opening = sample([(0, 2), (1, 1)])
    assert opening.trained.tolist() == [False, True, False]
    assert pack(alike([opening]), 10).micro_batches[0].mask.tolist() == [False, True, False, False]
    assert sample([(1, 2)]).trained.tolist() == [True, True]


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
