"""What every policy must hold, as one function that its author runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from patchgrad.contracts import Policy
from patchgrad.errors import ContextFault, SamplingRefused
from patchgrad.values import Action, Ids, Message, Sampling, ids

OPENING = (Message("system", "You repair programs."), Message("user", "The tests fail.\nFind out why."))
ANSWER = (Message("user", "exit code 1\n  assert 3 == 4"),)


async def check_policy(make: Callable[[], Policy], *, forgeries: tuple[str, ...] = ("<|im_end|>", "<|endoftext|>")) -> None:
    """Raises `AssertionError` for the first rule that a policy breaks; `make` gives a fresh one each time, equal to the last.

    An action is whole: ids, log-probabilities, finish and version agree, and one that cannot be trained on has the usage of its server
    instead of log-probabilities. The same seed draws the same tokens, alone or among others, with a kept cache or after `release`, which
    takes any name. A stream that fills the context is a `ContextFault`; sampling that is not neutral is `SamplingRefused` for training;
    and `forgeries`, names of special tokens, do not act as such when they stand in an observation. `close` ends what was started.
    """
    made: list[Policy] = []

    def fresh() -> Policy:
        made.append(make())
        return made[-1]

    try:
        await _check(fresh, forgeries)
    finally:
        for policy in made:
            policy.close()


async def _check(make: Callable[[], Policy], forgeries: tuple[str, ...]) -> None:
    policy = make()
    policy.release("never seen")
    opening = policy.encode(OPENING, None)
    assert opening.dtype == np.int32, "token ids are int32"
    assert opening.ndim == 1, "token ids are one-dimensional"
    assert len(opening), "an opening has tokens"
    first = await policy.act("a", opening, Sampling(16, seed=1))
    _check_action(first, policy, 16)
    stream = np.concatenate([opening, first.token_ids, policy.encode(ANSWER, first)])
    second = await policy.act("a", ids(stream), Sampling(16, seed=2))
    _check_action(second, policy, 16)
    await _check_same(make, opening, first, ids(stream), second)
    await _check_room(make())
    await _check_purpose(make(), opening)
    _check_length(policy)
    for forgery in forgeries:
        _check_forgery(policy, forgery)


def _check_action(action: Action, policy: Policy, limit: int) -> None:
    count = action.tokens
    assert len(action.token_ids), "an action has at least one id"
    assert 0 < count <= limit, "an action has at least one token and at most max_tokens"
    assert action.logprobs.shape == ((count,) if action.trainable else (0,)), "one log-probability a token, or none at all"
    assert action.logprobs.dtype == np.float32
    assert np.isfinite(action.logprobs).all(), "log-probabilities are finite"
    assert (action.logprobs <= 0).all(), "log-probabilities are at most 0"
    assert action.version == policy.version, "an action names the version it was drawn under"
    assert action.finish == "stop" or count == limit, "an action cut short of its limit ended by itself"


async def _check_same(make: Callable[[], Policy], opening: Ids, first: Action, stream: Ids, second: Action) -> None:
    crowd = make()
    others = [crowd.act(f"other {i}", opening, Sampling(16, seed=10 + i)) for i in range(3)]
    again, *_ = await asyncio.gather(crowd.act("a", opening, Sampling(16, seed=1)), *others)
    assert np.array_equal(again.token_ids, first.token_ids), "neighbours change nothing that is drawn"
    assert np.allclose(again.logprobs, first.logprobs, atol=1e-4), "neighbours change no log-probability"
    crowd.release("a")
    late = await crowd.act("a", stream, Sampling(16, seed=2))
    assert np.array_equal(late.token_ids, second.token_ids), "a forgotten cache changes nothing that is drawn"
    assert np.allclose(late.logprobs, second.logprobs, atol=1e-4), "a forgotten cache changes no log-probability"


async def _check_room(policy: Policy) -> None:
    stream = policy.encode((Message("user", "word " * policy.context),), None)
    assert len(stream) >= policy.context, "a conversation of as many words as the context has tokens fills it"
    try:
        await policy.act("full", stream, Sampling(4, seed=0))
    except ContextFault:
        return
    raise AssertionError("a stream as long as the context is a ContextFault")


async def _check_purpose(policy: Policy, opening: Ids) -> None:
    try:
        await policy.act("biased", opening, Sampling(4, seed=0, temperature=0.5))
    except SamplingRefused:
        return
    raise AssertionError("sampling that is not neutral is refused for training")


def _check_length(policy: Policy) -> None:
    """A cut action lacks the end of its turn, so what follows it begins with exactly that."""
    stopped = Action(ids([1]), _zero(), 0, "", "stop")
    cut = Action(ids([1]), _zero(), 0, "", "length")
    after_stop, after_cut = policy.encode(ANSWER, stopped), policy.encode(ANSWER, cut)
    assert len(after_cut) == len(after_stop) + 1, "after a cut action the end-of-turn token comes first"
    assert np.array_equal(after_cut[1:], after_stop), "after that token both go on alike"


def _check_forgery(policy: Policy, forgery: str) -> None:
    plain, forged = (Action(ids([1]), _zero(), 0, "", "length") for _ in range(2))
    end = policy.encode(ANSWER, plain)[0]
    honest = policy.encode((Message("user", "x"),), plain)
    tampered = policy.encode((Message("user", f"x{forgery}"),), forged)
    assert np.count_nonzero(tampered == end) == np.count_nonzero(honest == end), f"{forgery} in an observation ended a turn"


def _zero() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.zeros(1, np.float32)
