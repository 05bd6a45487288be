"""Groups that are trained more than once: a buffer of earlier iterations' groups, drawn by what is left to learn from each.

    groups of an iteration -> kept where attempts differ -> drawn by priority -> weighed -> those that the policy is still near to

What is kept of a group is where its attempts stand, not the attempts. With v the variance of its attempts' rewards, which is p (1 - p)
where a share of p has 1 and the others 0, n iterations after its own and u times trained again, its priority is (v / (n (1 + u)))^alpha,
and its chance P is its share of all priorities. A task's next group replaces the one before, so a task that is now solved always, or
never, is not drawn. Draws are systematic: of k draws a group gets k P in the mean, and its floor or ceiling each time. What it teaches
counts (N P)^-beta, N being the groups in the buffer, so that with beta = 1 the mean over draws is that over the buffer.

Prioritised replay and its weights are from arXiv 1511.05952, to prefer what is solved half of the time is from arXiv 2510.02245. Which of
the groups the policy is still near to is for `recall`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, pairwise
from math import ceil
from statistics import pvariance
from typing import Any

from patchgrad.rollouts.attempts import group_name
from patchgrad.values import Group


@dataclass(frozen=True, slots=True)
class Priorities:
    """How an iteration draws: at most so many `groups`, none that is older than `age` iterations or was trained again `uses` times.

    `alpha` says how much priorities count: with 0 all groups are alike. `beta` says how much of that is taken back by weights.
    """

    groups: int
    age: int = 4
    uses: int = 2
    alpha: float = 0.6
    beta: float = 0.4


@dataclass(frozen=True, slots=True)
class Kept:
    """A group in the buffer: its iteration, its task, its name, the variance of its rewards, and how often it was trained again.

    `versions` are those of the policy that may have sampled it.
    """

    iteration: int
    task: str
    group: str
    variance: float
    versions: tuple[int, ...]
    uses: int = 0

    def priority(self, now: int, alpha: float) -> float:
        """Half solved an iteration ago and never trained again is 0.25 for an alpha of 1; two iterations ago 0.125."""
        return float((self.variance / ((now - self.iteration) * (1 + self.uses))) ** alpha)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A group that is trained again, and how much its tokens count.

    `ess` is the effective share of its tokens under the policy as it is now; where that is too small it is not `near`, and not trained.
    """

    kept: Kept
    weight: float
    group: Group
    ess: float = 1.0
    near: bool = True


@dataclass(frozen=True, slots=True)
class Made:
    """What an iteration made: all of its groups, those of them that were trained, and the versions that may have sampled them."""

    iteration: int
    groups: Sequence[Group]
    trained: Sequence[Group]
    versions: Sequence[int]


@dataclass(slots=True)
class Buffer:
    """The groups of earlier iterations of a stage that may be trained again, in the order in which they were made."""

    kept: list[Kept] = field(default_factory=list)

    def draw(self, now: int, how: Priorities, seed: int) -> list[tuple[Kept, float]]:
        """What iteration `now` trains again, with weights; the same for the same buffer and seed.

        >>> half, most = Kept(0, "a", "0/a", 0.25, (0,)), Kept(0, "b", "0/b", 0.09, (0,))
        >>> [(kept.task, round(weight, 2)) for kept, weight in Buffer([half, most]).draw(1, Priorities(2, alpha=1.0, beta=1.0), seed=2)]
        [('a', 0.68), ('b', 1.89)]
        """
        priorities = [one.priority(now, how.alpha) for one in self.kept]
        whole, count = sum(priorities), min(how.groups, len(priorities))
        chances = [value / whole for value in priorities]
        times = systematic([count * chance for chance in chances], random.Random(f"replay {seed} {now}").random())
        drawn = zip(self.kept, chances, times, strict=True)
        return [(one, often * (len(priorities) * chance) ** -how.beta) for one, chance, often in drawn if often]

    def observe(self, made: Made, drawn: Sequence[Recalled], how: Priorities) -> int:
        """An iteration was trained: its groups come in, and others go out. How many went out by their age."""
        used = {one.kept.group: one.near for one in drawn}
        tasks = {group.task.id for group in made.groups if group.whole}
        left = [replace(one, uses=one.uses + (one.group in used)) for one in self.kept if used.get(one.group, True)]
        left = [one for one in left if one.task not in tasks and one.uses < how.uses]
        young = [one for one in left if made.iteration + 1 - one.iteration <= how.age]
        self.kept = [*young, *_kept(made)]
        return len(left) - len(young)

    def clear(self) -> None:
        """A new stage has other limits and another reward, so it begins with nothing."""
        self.kept.clear()

    def state(self) -> list[dict[str, Any]]:
        """As JSON."""
        return [asdict(one) for one in self.kept]

    @classmethod
    def restored(cls, state: Sequence[Mapping[str, Any]]) -> Buffer:
        """As `state()` tells."""
        return cls([Kept(**{**one, "versions": tuple(one["versions"])}) for one in state])


def systematic(expected: Sequence[float], first: float) -> list[int]:
    """How often each is drawn by points that are 1 apart, the first of which is from 0 to 1, where it is expected so often.

    >>> systematic([1.5, 0.5], 0.2), systematic([1.5, 0.5], 0.7)
    ([2, 0], [1, 1])
    """
    ends = [0.0, *accumulate(expected)]
    return [ceil(end - first) - ceil(begin - first) for begin, end in pairwise(ends)]


def _kept(made: Made) -> list[Kept]:
    """The groups whose attempts have something to tell: their rewards differ."""
    rewards = [[one.reward.value for one in group.whole] for group in made.trained]
    named = [(group.task.id, group_name(group.rollouts[0])) for group in made.trained]
    variances = [pvariance(values) if len(values) > 1 else 0.0 for values in rewards]
    of = tuple(made.versions)
    return [Kept(made.iteration, task, name, value, of) for (task, name), value in zip(named, variances, strict=True) if value > 0]
