"""A sampler that draws from something else than the softmax is seen, and an honest one is not suspected."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.runs.forged import Inheriting

from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.scaling import Yarn
from patchgrad.policies.embedded import ChatTokenizer, EmbeddedPolicy
from patchgrad.recipes.bounds import Guards
from patchgrad.runs.guards import Watch
from patchgrad.runs.probe import Probe, before, probe
from patchgrad.trainers.local import LocalTrainer
from patchgrad.values import Ids, Sampling, ids

torch.set_num_threads(1)
SHAPE = DecoderConfig(300, 32, 2, 2, 1, 16, intermediate=64, context=512)
STREAMS = [ids([7 + number, 20, 31]) for number in range(24)]


def network(scale: float = 5.0) -> Decoder:
    """Random weights; a larger scale makes the policy more certain, and attention heard."""
    made = Decoder(SHAPE, seed=1)
    with torch.no_grad():
        made.model.embed_tokens.weight.mul_(scale)
        for layer in made.model.layers:
            for parameter in layer.parameters():
                parameter.mul_(8.0 if parameter.dim() == 2 else 1.0)
    return made


def test_a_probe_reads_no_more_prompts_than_it_needs_and_the_whole_room_where_it_is_to_look_far() -> None:
    short, long = [ids(range(300))] * 16, [ids(range(1000))] * 16
    assert [len(stream) for stream in before(short, 2000, far=False)] == [300] * 16
    assert [len(stream) for stream in before(long, 2000, far=True)] == [1000] * 6 + [2000]
    assert [len(stream) for stream in before(long, 900, far=False)] == [900], "no prompt fits, so one is cut"
    assert before([ids(range(7000)), *short], 8000, far=False)[0].tolist() == list(range(7000)), "one at least"


def probed(policy: EmbeddedPolicy, trainer: LocalTrainer, seed: int = 0, streams: list[Ids] = STREAMS) -> Probe:
    return asyncio.run(probe(policy, trainer, streams, tokens=32, seed=seed))


def a_policy(made: Decoder, kind: type[EmbeddedPolicy] = EmbeddedPolicy) -> EmbeddedPolicy:
    return kind(made, ChatTokenizer.train([], 300), sessions=24, context=512)


@pytest.mark.parametrize("scale", [1.0, 5.0, 40.0])
def test_an_honest_sampler_is_not_suspected(scale: float) -> None:
    made = network(scale)
    policy, trainer = a_policy(made), LocalTrainer(made)
    seen = [probed(policy, trainer, seed) for seed in range(12)]
    surprises = np.array([one.sampling_z for one in seen])
    assert abs(surprises.mean()) < 1.2, "twelve standard normal numbers have a mean within 4 errors of 0"
    assert surprises.min() > -4.0, "no guard is touched"
    assert max(one.logprob_diff for one in seen) < 1e-3


@pytest.mark.parametrize(
    "forged",
    [Sampling(1, 0, top_k=20), Sampling(1, 0, top_p=0.8), Sampling(1, 0, temperature=0.7)],
    ids=["top_k", "top_p", "temperature"],
)
def test_a_forged_generation_config_ends_the_run_with_the_reason(forged: Sampling) -> None:
    made = network()
    policy = a_policy(made, Inheriting)
    assert isinstance(policy, Inheriting)
    policy.forged = forged
    seen = probed(policy, LocalTrainer(made))
    alarms, reason = Watch(Guards()).see({"sampling_z": seen.sampling_z, "logprob_diff": seen.logprob_diff})
    assert seen.sampling_z < -6.0
    assert "not drawn from the policy's own softmax" in reason
    assert [alarm.figure for alarm in alarms] == ["sampling_z"], "the log-probabilities themselves are right"


def test_another_rope_in_the_sampler_shows_far_from_the_beginning() -> None:
    made = network()
    stretched = Decoder(replace(SHAPE, scaling=Yarn(4.0, 128)), seed=1)
    stretched.load_state_dict(made.state_dict())
    far = [ids(np.arange(400) % 290 + 5)]
    assert probed(a_policy(made), LocalTrainer(made), streams=far).logprob_diff < 1e-3
    assert probed(a_policy(stretched), LocalTrainer(made), streams=far).logprob_diff > 0.05
    near = [ids(np.arange(9) + 5 + number) for number in range(16)]
    assert probed(a_policy(stretched), LocalTrainer(made), streams=[*near, *far]).logprob_diff > 0.05, (
        "many near actions do not hide the far one"
    )
