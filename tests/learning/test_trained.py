"""What updates made of each token is told of the turn that the token is of, whatever the packs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.attempts import VOCABULARY, by_reward, samples, some_groups

from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.failures import KEEP_ALL
from patchgrad.learning.loop import Learned, learn
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.packing import scored
from patchgrad.learning.selection import sound
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.schedules import constant
from patchgrad.values import Floats, Group, Turn

torch.set_num_threads(1)
ROW = Algorithm(sound, by_reward, Clipped(), KEEP_ALL, whole_groups=True)
SIZES = IterationSizes(3, 4, minibatch=4, micro_batch_tokens=40, schedule=lambda steps: constant(1e-2))
GROUPS = some_groups()


def trainer(threads: int = 1) -> LocalTrainer:
    return LocalTrainer(Decoder(DecoderConfig(VOCABULARY, 24, 2, 3, 1, 8, intermediate=32), 0), threads=threads)


def turns_of(groups: list[Group]) -> dict[tuple[str, int], Turn]:
    attempts = [rollout.trajectory for group in groups for rollout in group.rollouts]
    return {(attempt.id, number): turn for attempt in attempts for number, turn in enumerate(attempt.turns, 1)}


def told(learned: Learned) -> dict[tuple[str, int, int], tuple[Floats, ...]]:
    return {
        (one.attempt, one.turn, one.update): (one.advantages, one.weights, one.old, one.logprobs, one.entropies) for one in learned.turns
    }


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("tokens", [40, 10_000])
def test_each_turn_is_told_with_an_entry_for_each_of_its_tokens_once_in_each_pass(tokens: int, threads: int) -> None:
    sizes = replace(SIZES, micro_batch_tokens=tokens, workers=threads, epochs=2)
    learned, there = learn(GROUPS, ROW, trainer(threads), sizes, 0), turns_of(GROUPS)
    assert {(one.attempt, one.turn) for one in learned.turns} <= set(there)
    assert set(Counter((one.attempt, one.turn) for one in learned.turns).values()) == {2}
    for one in learned.turns:
        turn = there[one.attempt, one.turn]
        kept = ~np.isnan(one.advantages)
        assert kept.any()
        assert all(len(part) == len(turn.action.token_ids) for part in (one.advantages, one.weights, one.old, one.logprobs, one.entropies))
        assert one.old[kept].tolist() == turn.action.logprobs[kept].tolist()
        assert one.version == learned.updates[one.update].version


def test_what_is_told_adds_up_to_what_each_update_measured() -> None:
    learned = learn(GROUPS, ROW, trainer(), replace(SIZES, epochs=3), 0)
    assert len(learned.updates) > 3
    for number, update in enumerate(learned.updates):
        own = [one for one in learned.turns if one.update == number]
        entropies, ratios = (np.concatenate(parts) for parts in ([o.entropies for o in own], [np.exp(o.logprobs - o.old) for o in own]))
        assert np.count_nonzero(~np.isnan(entropies)) == update.metrics["trained"]
        assert np.nanmean(entropies) == pytest.approx(update.metrics["entropy"], rel=1e-4)
        assert np.nanmean(ratios) == pytest.approx(update.metrics["ratio"], rel=1e-4)


def test_the_first_update_reads_what_the_trainer_scored_before_it() -> None:
    expected: dict[tuple[str, str], Floats] = {}
    made = samples(GROUPS)
    for sample, values in zip(made, scored(made, trainer().score, 40), strict=True):
        ends = np.cumsum([len(turn.action.token_ids) for turn in sample.segment.turns])
        parts = zip(sample.segment.turns, np.split(values, ends[:-1]), strict=True)
        expected |= {(sample.attempt, turn.address): part for turn, part in parts}
    learned, there = learn(GROUPS, ROW, trainer(), replace(SIZES, minibatch=100), 0), turns_of(GROUPS)
    assert learned.turns
    for one in learned.turns:
        kept = ~np.isnan(one.logprobs)
        assert one.logprobs[kept] == pytest.approx(expected[one.attempt, there[one.attempt, one.turn].address][kept], abs=1e-5)


def test_packs_and_threads_change_nothing_but_by_rounding() -> None:
    few, many = (
        told(learn(GROUPS, ROW, trainer(threads), replace(SIZES, micro_batch_tokens=tokens, workers=threads), 0))
        for tokens, threads in ((10_000, 1), (40, 2))
    )
    assert few.keys() == many.keys()
    for key, parts in few.items():
        for one, other in zip(parts, many[key], strict=True):
            assert one == pytest.approx(other, abs=1e-3, nan_ok=True)
