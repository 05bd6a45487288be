"""Does the policy draw from the trainer's own softmax? A few actions, sampled as in training and scored by the trainer.

    seen = await probe(policy, trainer, streams, tokens=48, seed=0)
    seen.sampling_z      near 0, between -4 and 4; far below, what was drawn is too likely, as with a top_k that nobody asked for

arXiv 2508.03501 (section 5.2) tells of a sampler that inherited top_k and min_p from a model's generation_config: first the figures rose,
and after five to ten iterations they fell. The sampled log-probabilities look right then, since they are the softmax's; what is wrong is
which tokens are drawn. Drawn from the softmax, a token's -log p is the entropy on average, whatever the policy; cut or sharpened, less.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchgrad.contracts import Policy, Trainer
from patchgrad.values import Action, Batch, Ids, MicroBatch, Sampling, digest, floats, ids

PROMPTS = 6000  # tokens; an agent's full prompt has a thousand


@dataclass(frozen=True, slots=True)
class Probe:
    """What so many `tokens` tell. `logprob_diff` is the mean difference of log-probabilities between sampler and trainer, in the action
    where it is largest: a rope that is another one shows far from the beginning alone.

    `sampling_z` is how many standard errors -log p less the entropy is above 0, summed over all tokens. The error is the softmax's own,
    not that of what was seen: of a policy that is nearly certain everything seen is likely, and that is no fault.
    """

    tokens: int
    logprob_diff: float
    sampling_z: float


def before(prompts: Sequence[Ids], room: int, *, far: bool) -> list[Ids]:
    """The streams of a probe: as many prompts as have `PROMPTS` tokens together, and where that is `far` one that fills the room.

    Of prompts of 1,000 tokens these are six. A prompt that is longer than the room is left out; where all are, there is the far one.
    """
    fitting = [prompt for prompt in prompts if len(prompt) <= room]
    ends = np.cumsum([len(prompt) for prompt in fitting])
    near = fitting[: max(1, int(np.searchsorted(ends, PROMPTS, "right")))]
    return [*near, np.resize(prompts[0], room)] if far or not near else near


async def probe(policy: Policy, trainer: Trainer, streams: Sequence[Ids], tokens: int, seed: int) -> Probe:
    """One action of at most so many tokens after each stream; nothing of the policy or the trainer changes."""
    names = [f"probe/{seed}/{number}" for number in range(len(streams))]
    seeds = [int(digest(name)[:15], 16) for name in names]
    try:
        drawn = await asyncio.gather(
            *(policy.act(name, stream, Sampling(tokens, one)) for name, stream, one in zip(names, streams, seeds, strict=True))
        )
    finally:
        for name in names:
            policy.release(name)
    return await asyncio.to_thread(_scored, trainer, streams, drawn)


def _scored(trainer: Trainer, streams: Sequence[Ids], drawn: Sequence[Action]) -> Probe:
    micro_batches = tuple(_micro_batch(stream, action) for stream, action in zip(streams, drawn, strict=True))
    count = sum(len(action.token_ids) for action in drawn)
    batch = Batch(micro_batches, count, len(micro_batches))
    own = trainer.score(batch)
    logprob_diff = max(
        float(np.abs(told - micro_batch.sampled)[micro_batch.mask].mean()) for told, micro_batch in zip(own, micro_batches, strict=True)
    )
    excess, variance = trainer.nll_excess(batch)
    return Probe(count, logprob_diff, excess / math.sqrt(variance) if variance > 0 else 0.0)


def _micro_batch(stream: Ids, action: Action) -> MicroBatch:
    """A stream and the action after it: `[a b]` and `[c d]` -> tokens `[a b c d]`, mask `[0 0 1 1]`."""
    tokens = np.concatenate([stream, action.token_ids])
    mask = np.arange(len(tokens)) >= len(stream)
    sampled = np.zeros(len(tokens))
    sampled[mask] = action.logprobs
    told, one = floats(sampled), floats(mask)
    return MicroBatch(ids(tokens), ids(range(len(tokens))), ids([0, len(tokens)]), mask, told, told, told, one, one)
