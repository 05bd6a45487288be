"""Advantages from attempts that go on after turns of one another: what a stretch of turns changed in the chance of success.

| estimator  | advantage of a turn                                             | from                                |
|------------|-----------------------------------------------------------------|-------------------------------------|
| `Branched` | (value where its stretch ends - where it began) / (std + delta) | VinePPO 2410.01679, SPO 2505.23564  |
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, pstdev

import numpy as np

from patchgrad.values import Floats, Group, Rollout, floats

BEGINNING = ""
"""Where attempts begin that replay nothing; every other place has the address of the turn before it."""


@dataclass(frozen=True, slots=True)
class Branched:
    """Monte-Carlo turn values, without a critic.

    A group and its forks are a tree. The value of a place in it is the mean over those that went on from there, each worth the value of
    the next place on its way that others went on from too, or its reward where there is none. Between two such places lies a stretch, and
    all action tokens of its turns have the advantage (value at its end - value at its beginning) over the deviation of the group's
    rewards. The stretches of an attempt add up to its reward less the value of the beginning. Without forks this is `GroupNormalised`, and
    `baseline_offset` is as there. What a fork replays has 0.

    Two attempts of three turns, with rewards 1 and 0; after two turns the second one goes on twice more, with rewards 1 and 0. The value
    there is (0 + 1 + 0) / 3, and that of the beginning (1 + 1/3) / 2 = 2/3. Before division the first attempt has 1/3 in all its turns, the
    second -1/3 in two and -1/3 in its last, its forks 2/3 and -1/3 in their own turns.
    """

    delta: float = 1e-6
    baseline_offset: float = 0.0

    def __call__(self, group: Group) -> list[Floats]:
        rewards = [rollout.reward.value for rollout in group.rollouts]
        if len(set(rewards)) == 1:
            return [floats(np.zeros(sum(_tokens(rollout)))) for rollout in group.rollouts]
        tree, scale = _Tree(group), pstdev(rewards) + self.delta
        return [floats(np.repeat(self._turns(tree, rollout, scale), _tokens(rollout))) for rollout in group.rollouts]

    def _turns(self, tree: _Tree, rollout: Rollout, scale: float) -> list[float]:
        found = [0.0] * rollout.trajectory.replayed
        for first, last in tree.stretches(rollout):
            gained = tree.end(rollout, last) - tree.value(_place(rollout, first))
            found += [(gained + self.baseline_offset) / scale] * (last - first)
        return found


class _Tree:
    """A group and its forks by the places that they went on from."""

    def __init__(self, group: Group) -> None:
        self._begun = {_place(rollout, rollout.trajectory.replayed) for rollout in group.rollouts}
        self._onward: dict[str, list[tuple[Rollout, int]]] = defaultdict(list)
        for rollout in group.rollouts:
            for first, last in self.stretches(rollout):
                self._onward[_place(rollout, first)].append((rollout, last))

    def stretches(self, rollout: Rollout) -> list[tuple[int, int]]:
        """An attempt's own turns, cut where others went on: `[(0, 2), (2, 5)]` of five turns of which the second was forked after."""
        trajectory = rollout.trajectory
        cuts = [n for n in range(trajectory.replayed + 1, len(trajectory.turns)) if _place(rollout, n) in self._begun]
        return list(zip([trajectory.replayed, *cuts], [*cuts, len(trajectory.turns)], strict=True))

    def end(self, rollout: Rollout, last: int) -> float:
        """What a stretch that ends there came to."""
        return rollout.reward.value if last == len(rollout.trajectory.turns) else self.value(_place(rollout, last))

    def value(self, place: str) -> float:
        """The mean over those that went on from a place."""
        return fmean(self.end(rollout, last) for rollout, last in self._onward[place])


def _place(rollout: Rollout, turns: int) -> str:
    return rollout.trajectory.turns[turns - 1].address if turns else BEGINNING


def _tokens(rollout: Rollout) -> list[int]:
    return [len(turn.action.token_ids) for turn in rollout.trajectory.turns]
