"""What every policy that can be trained must hold beside `check_policy`, as one function that its author runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from patchgrad.contracts import TrainablePolicy, Weights
from patchgrad.errors import SamplingRefused
from patchgrad.testing.policy import ANSWER, OPENING, check_policy
from patchgrad.values import Action, Ids, Origin, Sampling, ids, stream_digest

LENGTH = 16
BIASED = Sampling(LENGTH, seed=1, temperature=0.5)


async def check_trainable_policy(
    make: Callable[[], TrainablePolicy], weights: Weights, *, forgeries: tuple[str, ...] = ("<|im_end|>", "<|endoftext|>")
) -> None:
    """Raises `AssertionError` for the first rule that a trainable policy breaks; `make` gives a fresh one each time, equal to the last.

    It is a policy (`check_policy`). It encodes as its tokenizer does. Every action can be trained on, ends with a stop exactly where it
    says so, has none before, and names the ids and the tokenizer that it was sampled after. Sampling that is not neutral is refused for
    training, and for nothing else. After `load(weights, version)` actions have that version, and are those of any other policy that
    loaded the same `weights`, whatever was cached; an action that is under way meanwhile is of one version, or its `spans` say which
    version drew which tokens.
    """
    await check_policy(make, forgeries=forgeries)
    policy, other = make(), make()
    try:
        opening = policy.encode(OPENING, None)
        assert np.array_equal(opening, policy.tokenizer.encode(OPENING, None)), "a policy encodes as its tokenizer does"
        assert policy.stops >= policy.tokenizer.eos, "every id with which the tokenizer ends a turn is a stop"
        first = await policy.act("a", opening, Sampling(LENGTH, seed=1))
        _check_action(policy, opening, first)
        stream = ids(np.concatenate([opening, first.token_ids, policy.encode(ANSWER, first)]))
        _check_action(policy, stream, await policy.act("a", stream, Sampling(LENGTH, seed=2)))
        await _check_purpose(policy, opening)
        await _check_load(policy, other, stream, weights)
    finally:
        policy.close()
        other.close()


def _check_action(policy: TrainablePolicy, stream: Ids, action: Action) -> None:
    assert action.trainable, "every action of a trainable policy can be trained on"
    assert len(action.logprobs) == len(action.token_ids), "there is one log-probability a token"
    assert action.origin == Origin(stream_digest(stream), policy.tokenizer.fingerprint), "an action says after which ids it was sampled"
    stops = [int(token) in policy.stops for token in action.token_ids]
    assert not any(stops[:-1]), "nothing is sampled after a stop"
    assert stops[-1] == (action.finish == "stop"), "an action ends with a stop exactly where it says so"
    said = action.token_ids[: len(stops) - stops[-1]].tolist()
    assert action.text == policy.tokenizer.decode(said), "the text of an action is that of its ids, less the stop"


async def _check_purpose(policy: TrainablePolicy, opening: Ids) -> None:
    try:
        await policy.act("b", opening, BIASED)
    except SamplingRefused:
        pass
    else:
        raise AssertionError("sampling that is not neutral is refused for training")
    for purpose in ("evaluation", "study"):
        _check_action(policy, opening, await policy.act("c", opening, replace(BIASED, purpose=purpose)))


async def _check_load(policy: TrainablePolicy, other: TrainablePolicy, stream: Ids, weights: Weights) -> None:
    await policy.act("cached", policy.encode(OPENING, None), Sampling(LENGTH, seed=1))
    await asyncio.to_thread(policy.load, weights, 3)
    await asyncio.to_thread(other.load, weights, 4)
    assert (policy.version, other.version) == (3, 4), "a policy has the version that was loaded"
    found = [await one.act("cached", stream, Sampling(LENGTH, seed=2)) for one in (policy, other)]
    assert [action.version for action in found] == [3, 4], "an action has the version that was loaded"
    assert np.array_equal(found[0].token_ids, found[1].token_ids), "equal weights draw the same, whatever was cached under others"
    assert np.allclose(found[0].logprobs, found[1].logprobs, atol=1e-4), "equal weights give the same log-probabilities"
    acting = [asyncio.create_task(policy.act(f"under way {number}", stream, Sampling(LENGTH, seed=number))) for number in range(4)]
    await asyncio.sleep(0)
    await asyncio.to_thread(policy.load, weights, 5)
    for action in await asyncio.gather(*acting):
        assert action.version in (3, 5), "an action under way has the version before, or the one after"
        assert not action.spans or action.spans[0] == (action.version, 0), "an action of several versions names the oldest one"
    assert (await policy.act("later", stream, Sampling(LENGTH, seed=1))).version == 5, "what begins after a load is of its version"
