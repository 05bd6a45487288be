"""Who computes which rows of which micro-batch: each is computed once, and every rank makes as many steps as every other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.trainers.sharded.launching import sizes
from patchgrad.trainers.sharded.schedule import schedule
from patchgrad.trainers.sharded.shares import Shares

LENGTHS = st.lists(st.integers(1, 500), min_size=1, max_size=30)


@given(LENGTHS, st.integers(1, 12), st.integers(1, 12), st.integers(10, 600))
def test_each_micro_batch_is_computed_once_by_the_fewest_ranks_that_it_fits(
    lengths: list[int], ranks: int, together: int, budget: int
) -> None:
    allowed = sizes(ranks, together)
    steps = schedule(lengths, ranks, allowed, budget)
    computed = [work.micro_batch for step in steps for rank, work in enumerate(step) if rank == work.first and work.micro_batch is not None]
    assert sorted(computed) == list(range(len(lengths)))
    for step in steps:
        assert len(step) == ranks, "every rank makes every step"
        for rank, work in enumerate(step):
            assert rank in work.ranks
            assert work.first % work.size == 0, "teams of a size are always the same"
            assert all(step[other] is work or step[other] == work for other in work.ranks), "a team computes one thing"
            if work.micro_batch is not None:
                fits = [size for size in allowed if lengths[work.micro_batch] <= size * budget]
                assert work.size == (fits[0] if fits else allowed[-1])


@given(LENGTHS, st.integers(1, 8))
def test_ranks_for_themselves_take_turns_as_threads_do(lengths: list[int], ranks: int) -> None:
    steps = schedule(lengths, ranks, [1], max(lengths))
    for rank in range(ranks):
        own = [step[rank].micro_batch for step in steps]
        assert [number for number in own if number is not None] == list(range(len(lengths)))[rank::ranks]


@given(st.integers(1, 9), st.integers(1, 60), st.data())
def test_every_row_and_every_trained_token_is_of_one_rank(size: int, rows: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=40))
    others = data.draw(st.sets(st.integers(0, rows - 1)))
    said = data.draw(st.sampled_from([None, sorted({*places, *others})]))
    shares = Shares.even(size, rows, said, places)
    assert np.concatenate([np.arange(rows)[shares.rows(rank)] for rank in range(size)]).tolist() == list(range(rows))
    assert max(shares.counts) - min(shares.counts) <= 1
    hidden = np.arange(rows) if said is None else np.array(said)
    found = []
    for rank in range(size):
        own = np.arange(rows)[shares.rows(rank)]
        last = own if shares.said_of(rank) is None else own[shares.said_of(rank)]
        assert len(last) == shares.said_counts[rank]
        assert set(last) <= set(hidden)
        found.append(last[shares.predicting(rank)])
    assert np.concatenate(found)[shares.order].tolist() == places, "each token is predicted where it should be, in their order"


def test_the_example_of_the_docstring() -> None:
    shares = Shares.even(2, 5, said=[1, 3, 4], places=[3, 1, 4])
    assert [shares.predicted(rank).tolist() for rank in range(2)] == [[1], [0, 2]]
    assert [shares.said_counts, shares.counts] == [[1, 2], [2, 3]]
    steps = schedule([90, 30, 20, 10], 4, [1, 2, 4], 40)
    assert [[work.micro_batch for work in step] for step in steps] == [[0, 0, 0, 0], [1, 2, 3, None]]
