"""A bandit of three turns: small enough that a policy's exact share of success is a product of three probabilities.

An attempt says one of four tokens a turn, of which one is right, and only three right ones solve it: 1 in 64 by chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from patchgrad.learning.algorithm import Algorithm, IterationSizes
from patchgrad.learning.loop import learn
from patchgrad.networks.decoder import Decoder, DecoderConfig
from patchgrad.networks.prefixes import apart
from patchgrad.trainers.local import LocalTrainer
from patchgrad.trainers.schedules import constant
from patchgrad.values import (
    Action,
    Call,
    Checks,
    Group,
    Observation,
    Repository,
    Reward,
    Rollout,
    Segment,
    Task,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
)

RIGHT = (1, 3, 2)
ASKED = ((3, 0), (1,), (2,))  # what the bandit says before each turn
TASK = Task("bandit", "", Repository("archive", "", ""), Checks(("a",), ()))
SIZES = IterationSizes(4, 16, minibatch=32, micro_batch_tokens=10_000, schedule=lambda steps: constant(1e-2))


def climb(algorithm: Algorithm, seed: int, iterations: int, enough: float = 0.9) -> tuple[float, int]:
    """The exact share of success that training reaches, and the iterations it took: it stops where it has `enough`."""
    trainer = LocalTrainer(Decoder(DecoderConfig(4, 16, 1, 2, 1, 8, intermediate=32), seed), optimiser="adamw")
    random = np.random.default_rng(seed)
    for iteration in range(iterations):
        if (share := success(trainer.network)) > enough:
            return share, iteration
        learn(play(trainer.network, random), algorithm, trainer, SIZES, iteration)
    return success(trainer.network), iterations


def success(network: Decoder) -> float:
    """The probability of all three right tokens."""
    share, stream = 1.0, list[int]()
    for asked, right in zip(ASKED, RIGHT, strict=True):
        stream += asked
        share *= float(np.exp(said(network, [stream])[0, right]))
        stream.append(right)
    return share


def play(network: Decoder, random: np.random.Generator) -> list[Group]:
    """Four groups of 16 attempts."""
    streams: list[list[int]] = [[] for _ in range(64)]
    turns: list[list[Turn]] = [[] for _ in streams]
    for number, asked in enumerate(ASKED):
        logs = said(network, [[*stream, *asked] for stream in streams])
        drawn = (logs + random.gumbel(size=logs.shape)).argmax(1).tolist()
        for stream, own, row, token in zip(streams, turns, logs, drawn, strict=True):
            action = Action(ids([token]), floats([row[token]]), 0, "", "stop")
            parent = own[-1].address if own else "genesis"
            own.append(Turn(ids(asked), action, Call("pull", f"{number} {token}"), Observation("", ToolState()), "s", parent))
            stream += [*asked, token]
    rollouts = [_rollout(f"{number // 16}/{number % 16}", own) for number, own in enumerate(turns)]
    return [Group(tuple(rollouts[first : first + 16])) for first in range(0, len(rollouts), 16)]


@torch.no_grad()
def said(network: Decoder, streams: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    """Log-probabilities of the next token after each stream, `[streams, vocabulary]`."""
    starts = np.cumsum([0, *map(len, streams)])
    tokens = torch.tensor([token for stream in streams for token in stream])
    positions = torch.tensor([place for stream in streams for place in range(len(stream))])
    hidden = network.forward_packed(tokens, positions, apart(starts.tolist()).nodes)[starts[1:] - 1]
    return torch.log_softmax(hidden @ network.head.T, -1).numpy()


def _rollout(name: str, turns: Sequence[Turn]) -> Rollout:
    solved = all(int(turn.action.token_ids[0]) == right for turn, right in zip(turns, RIGHT, strict=True))
    verdict = Verdict(TASK.id, "", ("ran",), (TestOutcome("a", "fail_to_pass", "passed" if solved else "failed"),))
    return Rollout(TASK, Trajectory(name, TASK.id, (Segment(tuple(turns)),), "submitted", ""), verdict, Reward(float(solved), {}))
