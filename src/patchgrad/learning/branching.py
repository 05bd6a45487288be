"""Turns worth a fork: attempts go on anew before them, so that their value is measured and not guessed by a critic.

groups of attempts -> the most doubtful turns -> a few more attempts that go on before each -> groups with their forks

The rule: only in groups whose attempts ended differently, since elsewhere most turns are worth the same. A turn is as doubtful as the
least likely token of its action was. Forked is before the most doubtful ones, no first turn, one of an attempt, none twice from the same
address. Branching where the policy is uncertain is from ARPO (arXiv 2507.19849), values by going on from VinePPO (arXiv 2410.01679);
what is made of them is `advantages.Branched`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from patchgrad.contracts import Policy
from patchgrad.learning.selection import contrast
from patchgrad.rollouts.attempts import AttemptSettings, derive_seed, run_attempts
from patchgrad.rollouts.harness import Harness
from patchgrad.values import Attempt, Group, Rollout


@dataclass(frozen=True, slots=True)
class Forking:
    """Before how many `turns` of a group that differs in `on` attempts go on anew, and how many times: `continuations` of each."""

    turns: int
    continuations: int
    on: Literal["outcome", "reward"] = "outcome"


def doubtful(group: Group, count: int, on: Literal["outcome", "reward"] = "outcome") -> list[tuple[Rollout, int]]:
    """The attempts of a group that are worth a fork, and after how many of their turns: before the one that was most in doubt.

    Of an attempt whose turns had least likely tokens of probability 0.9, 0.2 and 0.4 it is `(attempt, 1)`. `[]` where all attempts ended
    alike.
    """
    found: dict[str, tuple[float, Rollout, int]] = {}
    for rollout in (rollout for differing in contrast([group], on) for rollout in differing.rollouts):
        turns, begun = rollout.trajectory.turns, rollout.trajectory.replayed
        places = range(max(1, begun + 1), len(turns))
        if not places:
            continue
        place = min(places, key=lambda n: float(turns[n].action.logprobs.min()))
        found.setdefault(turns[place - 1].address, (float(turns[place].action.logprobs.min()), rollout, place))
    return [(rollout, place) for _, rollout, place in sorted(found.values(), key=lambda item: item[0])[:count]]


async def branched(harness: Harness, policy: Policy, groups: Sequence[Group], forking: Forking, settings: AttemptSettings) -> list[Group]:
    """The groups with the forks of their most doubtful turns, in order.

    The forks of the attempt `stage1/0/3/2` after its fourth turn go by `stage1/0/3/2+4.0`, `stage1/0/3/2+4.1` and so on.
    """
    items: list[list[Attempt]] = [[] for _ in groups]
    for chosen, group in zip(items, groups, strict=True):
        for rollout, place in doubtful(group, forking.turns, forking.on):
            taken, origin = rollout.trajectory, rollout.trajectory.origin or rollout.trajectory.id
            names = [f"{taken.id}+{place}.{number}" for number in range(forking.continuations)]
            chosen += [
                Attempt(
                    group.task,
                    name,
                    derive_seed(settings.seed, name),
                    settings.budget,
                    settings.sampling,
                    taken.turns[:place],
                    origin,
                )
                for name in names
            ]
    done = iter(await run_attempts(harness, policy, [item for chosen in items for item in chosen], settings.reward))
    return [Group((*group.rollouts, *(next(done) for _ in chosen))) for group, chosen in zip(groups, items, strict=True)]
