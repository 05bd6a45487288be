"""Attempts that are read again: a sampler with other weights, other arithmetic or another temperature is found, and its turn is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.attempts import attempt

from patchgrad.learning.algorithm import IterationSizes
from patchgrad.learning.spot import Spot, spotted
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.recipes.bounds import Guards
from patchgrad.runs.guards import Watch
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.schedules import constant
from patchgrad.values import Action, Group, Rollout, Sampling, Segment, digest, floats, ids

torch.set_num_threads(1)
SHAPE = DecoderConfig(300, 32, 2, 2, 1, 16, intermediate=64, context=512)
SIZES = IterationSizes(3, 4, 4, micro_batch_tokens=400, schedule=lambda steps: constant(1e-3), spot=1.0)
NEUTRAL = Sampling(24, seed=0)


def network(seed: int = 1) -> Decoder:
    """Random weights that are far from uniform."""
    made = Decoder(SHAPE, seed=seed)
    with torch.no_grad():
        made.model.embed_tokens.weight.mul_(5.0)
        for layer in made.model.layers:
            for parameter in layer.parameters():
                parameter.mul_(4.0 if parameter.dim() == 2 else 1.0)
    return made


async def drawn(policy: EmbeddedPolicy, name: str, sampling: Sampling) -> Rollout:
    """An attempt of three turns, the last of them in a segment of its own."""
    made = attempt(name, [[(7, 1), (5, 1)], [(9, 1)]])
    segments = []
    for number, segment in enumerate(made.trajectory.segments):
        stream, turns = ids([]), []
        for place, turn in enumerate(segment.turns):
            stream = ids(np.concatenate([stream, turn.context]))
            seed = int(digest(name, str(number), str(place))[:7], 16)
            action = await policy.act(f"{name} {number}", stream, replace(sampling, seed=seed))
            turns.append(replace(turn, action=action))
            stream = ids(np.concatenate([stream, action.token_ids]))
        segments.append(Segment(tuple(turns)))
    return replace(made, trajectory=replace(made.trajectory, segments=tuple(segments)))


def groups(sampling: Sampling = NEUTRAL, weights: Decoder | None = None) -> list[Group]:
    """Twelve attempts by a policy with these weights."""
    made = network()
    policy = EmbeddedPolicy(made, ChatTokenizer.train([], 300), sessions=64, context=512)
    if weights is not None:
        policy.load({name: parameter.detach() for name, parameter in weights.named_parameters()}, 0)

    async def all_of_them() -> list[Rollout]:
        return [await drawn(policy, f"stage1/{g}/{a}", sampling) for g in range(3) for a in range(4)]

    rollouts = asyncio.run(all_of_them())
    policy.close()
    return [Group(tuple(rollouts[4 * g : 4 * g + 4])) for g in range(3)]


def changed(found: list[Group], attempt: str, turn: int, change: Callable[[Action], Action]) -> list[Group]:
    """The same, but for one action."""

    def of(rollout: Rollout) -> Rollout:
        if rollout.trajectory.id != attempt:
            return rollout
        numbers = {id(one): number for number, one in enumerate(rollout.trajectory.turns, 1)}
        segments = [
            Segment(tuple(replace(one, action=change(one.action)) if numbers[id(one)] == turn else one for one in segment.turns))
            for segment in rollout.trajectory.segments
        ]
        return replace(rollout, trajectory=replace(rollout.trajectory, segments=tuple(segments)))

    return [Group(tuple(map(of, group.rollouts))) for group in found]


def seen(found: list[Group], sizes: IterationSizes = SIZES, seed: int = 0) -> Spot:
    spot = spotted(found, LocalTrainer(network()), sizes, seed)
    assert spot is not None
    return spot


def stops(spot: Spot) -> bool:
    """Would a run end?"""
    return bool(Watch(Guards()).see({"logprob_diff": spot.logprob_diff, "sampling_z": spot.sampling_z})[1])


def test_an_honest_sampler_is_not_suspected() -> None:
    spot = seen(groups())
    assert spot.actions == 36
    assert spot.logprob_diff < 1e-4
    assert abs(spot.sampling_z) < 4
    assert not stops(spot)


def test_other_weights_are_found() -> None:
    assert stops(seen(groups(weights=network(seed=2))))


def test_another_temperature_is_found_although_the_log_probabilities_are_right() -> None:
    spot = seen(groups(replace(NEUTRAL, temperature=0.6, purpose="study")))
    assert spot.logprob_diff < 1e-4
    assert stops(spot)


def test_the_turn_that_is_farthest_is_named() -> None:
    def coarser(action: Action) -> Action:
        return replace(action, logprobs=floats(action.logprobs - 0.4))

    for turn in (1, 2, 3):
        spot = seen(changed(groups(), "stage1/1/2", turn, coarser))
        assert (spot.attempt, spot.turn) == ("stage1/1/2", turn)
        assert spot.logprob_diff == pytest.approx(0.4, rel=1e-3)


def test_a_share_is_drawn_by_names_and_seed_and_finds_a_fault_as_often_as_is_said() -> None:
    found, share = groups(), 0.25
    few = replace(SIZES, spot=share)

    def actions(seed: int) -> int:
        spot = spotted(found, LocalTrainer(network()), few, seed)
        return spot.actions if spot else 0

    counts = [actions(seed) for seed in range(40)]
    assert counts == [actions(seed) for seed in range(40)]
    assert set(counts) <= {3 * number for number in range(13)}
    assert sum(counts) / 40 / 36 == pytest.approx(share, abs=0.1)


def test_what_an_earlier_version_has_drawn_is_not_read_again() -> None:
    older = changed(groups(), "stage1/0/0", 2, lambda action: replace(action, version=-1))
    assert seen(older).actions == 35
    trainer = LocalTrainer(network(), version=5)
    assert spotted(groups(), trainer, SIZES, 0) is None
