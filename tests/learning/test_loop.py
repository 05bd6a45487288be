"""From groups to updates: which log-probabilities ratios are taken to, and what a correction and a reference do on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.attempts import VOCABULARY, alike, by_reward, samples, some_groups

from patchgrad.contracts import Trained
from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.failures import KEEP_ALL
from patchgrad.learning.loop import learn
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.learning.objectives.corrections import MaskToken, Together, TruncateToken
from patchgrad.learning.objectives.cross_entropy import cross_entropy
from patchgrad.learning.objectives.kl_penalty import WithKlPenalty
from patchgrad.learning.packing import pack
from patchgrad.learning.selection import sound
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.schedules import constant
from patchgrad.values import Bools, Floats, floats

torch.set_num_threads(1)
ROW = Algorithm(sound, by_reward, Clipped(), KEEP_ALL, whole_groups=True)
SIZES = IterationSizes(3, 4, minibatch=100, micro_batch_tokens=40, schedule=lambda steps: constant(1e-2))
GROUPS = some_groups()


def trainer(seed: int = 0) -> LocalTrainer:
    return LocalTrainer(Decoder(DecoderConfig(VOCABULARY, 24, 2, 3, 1, 8, intermediate=32), seed))


def same(one: LocalTrainer, two: LocalTrainer) -> bool:
    return all(torch.equal(tensor, two.weights()[name]) for name, tensor in one.weights().items())


class Seeing:
    """An objective that keeps what it was given."""

    def __init__(self) -> None:
        self.seen: list[Trained] = []

    def __call__(self, tokens: Trained) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        self.seen.append(tokens)
        return cross_entropy(tokens)


def test_ratios_are_taken_to_what_was_sampled_unless_the_trainer_is_asked() -> None:
    first, second = (learn(GROUPS, replace(ROW, old=old), trainer(), SIZES, 0).updates[0].metrics for old in ("sampled", "recomputed"))
    assert abs(first["ratio"] - 1) > 0.1
    assert first["sampler_ratio_max"] == 1
    for name, value in {"ratio": 1.0, "ratio_max": 1.0, "ess": 1.0, "kl1": 0.0, "kl3": 0.0, "clip_low": 0.0}.items():
        assert second[name] == pytest.approx(value, abs=1e-5)
    for name in ("ratio", "ratio_max", "ess", "kl1", "kl3"):
        assert second["sampler_" + name] == pytest.approx(first[name], rel=1e-4)
    assert second["logprob_diff"] == pytest.approx(first["logprob_diff"], rel=1e-5)


def test_a_schedule_is_told_how_many_steps_come() -> None:
    told: list[int] = []

    def schedule(steps: int) -> Callable[[int], float]:
        told.append(steps)
        return constant(1e-2)

    made = learn(GROUPS, ROW, trainer(), replace(SIZES, minibatch=2, epochs=3, schedule=schedule), 0).updates
    assert told == [len(made)]
    assert len(made) > 3


def test_a_new_schedule_starts_at_its_own_first_step() -> None:
    learner = trainer()
    learn(GROUPS, ROW, learner, SIZES, 0)
    sizes = replace(SIZES, minibatch=2, schedule=lambda steps: constant(1.0, warmup=10))
    rates = [update.metrics["rate"] for update in learn(GROUPS, ROW, learner, sizes, 0).updates]
    assert rates == pytest.approx([0.1 * (step + 1) for step in range(len(rates))])
    assert len(rates) > 1


def test_the_trainer_is_asked_before_the_first_step_of_an_iteration_and_not_again() -> None:
    updates = learn(GROUPS, replace(ROW, old="recomputed"), trainer(), replace(SIZES, minibatch=4, epochs=2), 0).updates
    assert len(updates) == 6
    assert updates[0].metrics["ratio_max"] == pytest.approx(1.0, abs=1e-5)
    assert all(update.metrics["ratio_max"] > 1.001 for update in updates[1:])


def test_reinforce_does_not_ask_what_was_old() -> None:
    learners = [trainer(), trainer()]
    for one, old in zip(learners, ("sampled", "recomputed"), strict=True):
        learn(GROUPS, replace(ROW, objective=cross_entropy, old=old), one, SIZES, 0)  # type: ignore[arg-type]
    assert same(*learners)


def test_a_correction_that_leaves_everything_is_no_correction() -> None:
    learners = [trainer(), trainer()]
    row = replace(ROW, old="recomputed")
    learn(GROUPS, row, learners[0], SIZES, 0)
    (update,) = learn(GROUPS, replace(row, correction=Together(())), learners[1], SIZES, 0).updates
    assert same(*learners)
    assert (update.metrics["truncated"], update.metrics["masked"]) == (0.0, 0.0)


def test_a_correction_weighs_by_what_the_trainer_says_over_what_was_sampled() -> None:
    whole = pack(alike(samples(GROUPS)), 10_000)
    weights = np.exp(trainer().score(whole)[0] - whole.micro_batches[0].sampled)[whole.micro_batches[0].mask]
    row = replace(ROW, old="recomputed", correction=Together((MaskToken(0.2, 3.0), TruncateToken(1.5))))
    (update,) = learn(GROUPS, row, trainer(), SIZES, 0).updates
    kept = (weights >= 0.2) & (weights <= 3.0)
    assert update.metrics["masked"] == pytest.approx(1 - kept.mean())
    assert update.metrics["truncated"] == pytest.approx((kept & (weights > 1.5)).mean())
    assert update.metrics["trained"] == kept.sum()
    advantages = whole.micro_batches[0].advantages[whole.micro_batches[0].mask]
    assert update.metrics["loss"] == pytest.approx(-(np.minimum(weights, 1.5) * advantages)[kept].mean(), rel=1e-4)


def test_a_minibatch_of_which_nothing_is_left_makes_no_step() -> None:
    def nothing(ratios: Floats) -> tuple[Floats, Bools]:
        return floats(0 * ratios), ratios == ratios

    learner = trainer()
    assert learn(GROUPS, replace(ROW, old="recomputed", correction=nothing), learner, SIZES, 0).updates == ()
    assert learner.version == 0
    assert same(learner, trainer())
    assert learn([], replace(ROW, old="recomputed"), learner, SIZES, 0).updates == ()


def test_a_penalty_pulls_to_the_reference_that_scored() -> None:
    seeing, other = Seeing(), trainer(seed=5)
    learn(GROUPS, replace(ROW, objective=seeing, reference=other.score), trainer(), replace(SIZES, micro_batch_tokens=10_000), 0)
    (tokens,) = seeing.seen
    whole = pack(alike(samples(GROUPS)), 10_000)
    assert sorted(tokens.reference.tolist()) == pytest.approx(sorted(other.score(whole)[0][whole.micro_batches[0].mask].tolist()), abs=1e-5)
    assert sorted(tokens.old.tolist()) == sorted(whole.micro_batches[0].sampled[whole.micro_batches[0].mask].tolist())
    penalties = []
    learner = trainer()
    for _ in range(20):
        row = replace(ROW, objective=WithKlPenalty(cross_entropy, 50.0, "k2", "reference"), reference=other.score)
        penalties.append(learn(GROUPS, row, learner, SIZES, 0).updates[0].metrics["kl_penalty"])
    assert penalties[-1] < 0.3 * penalties[0]


def test_without_a_reference_that_scored_the_sampler_is_the_reference() -> None:
    seeing = Seeing()
    learn(GROUPS, replace(ROW, objective=seeing, old="recomputed"), trainer(), replace(SIZES, micro_batch_tokens=10_000), 0)
    (tokens,) = seeing.seen
    whole = pack(alike(samples(GROUPS)), 10_000)
    assert sorted(tokens.reference.tolist()) == sorted(whole.micro_batches[0].sampled[whole.micro_batches[0].mask].tolist())
    assert tokens.old.tolist() != tokens.reference.tolist()


def test_a_sequence_is_whole_and_numbered_in_its_pack() -> None:
    seeing = Seeing()
    learn(GROUPS, replace(ROW, objective=seeing), trainer(), SIZES, 0)
    lengths = sorted(int(count) for tokens in seeing.seen for count in torch.bincount(tokens.sequences))
    assert len(seeing.seen) > 1
    assert lengths == sorted(int(sample.trained.sum()) for sample in samples(GROUPS))
