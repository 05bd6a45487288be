"""Advantages that are one value a rollout, broadcast to all of its action tokens. None needs a critic.

| estimator         | advantage of rollout i             | from                                     |
|-------------------|------------------------------------|------------------------------------------|
| `GroupNormalised` | (r_i - mean) / (std + delta)       | GRPO 2402.03300; arXiv 2508.03501, Eq. 2 |
| `MeanOnly`        | r_i - mean                         | Dr. GRPO 2503.20783                      |
| `LeaveOneOut`     | r_i - mean of the others           | RLOO 2402.14740                          |
| `LengthWeighted`  | (r_i - token mean) / (std + delta) | OPO 2505.23585, divided as Eq. 2 is      |
| `MeanScaled`      | (r_i - mean) / mean                | MaxRL 2602.02710                         |
| `Returns`         | r_i - a constant                   | REINFORCE, Williams 1992                 |
| `Ones`            | 1                                  | rejection fine-tuning                    |

An attempt that has no others to be compared with has an advantage of 0, but for the last two, which compare nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from patchgrad.values import Floats, Group, Rollout, floats

Rewards = npt.NDArray[np.float64]


def normalised(
    rewards: Rewards, std: Literal["population", "sample"] = "population", delta: float = 1e-6, baseline_offset: float = 0.0
) -> Rewards:
    """`normalised([1, 0, 0, 1, .5], "sample")` is `[.999998, -.999998, -.999998, .999998, 0]`; equal rewards give zeros."""
    ddof = 1 if std == "sample" and len(rewards) > 1 else 0
    if _equal(rewards):
        return np.zeros(len(rewards))
    scaled: Rewards = (rewards - (rewards.mean() - baseline_offset)) / (rewards.std(ddof=ddof) + delta)
    return scaled


def mean_only(rewards: Rewards) -> Rewards:
    """`mean_only([1, 0, 0, 1, .5])` is `[.5, -.5, -.5, .5, 0]`; equal rewards give zeros."""
    return np.zeros(len(rewards)) if _equal(rewards) else rewards - rewards.mean()


def _equal(rewards: Rewards) -> bool:
    """Have all attempts earned the same? Then rounding in their mean must not become a signal: optimisers divide by a gradient's size."""
    return not (rewards != rewards[0]).any()


def leave_one_out(rewards: Rewards) -> Rewards:
    """`leave_one_out([1, 0, 0, 1, .5])` is `[.625, -.625, -.625, .625, 0]`: G / (G - 1) times the centred rewards.

    A single rollout has no others to be compared with: zero.
    """
    count = len(rewards)
    return mean_only(rewards) * (count / (count - 1)) if count > 1 else np.zeros(count)


def mean_scaled(rewards: Rewards) -> Rewards:
    """`mean_scaled([1, 0, 0, 1, .5])` is `[1, -1, -1, 1, 0]`; without a mean above 0 there is nothing to divide by: zeros."""
    mean = float(rewards.mean())
    return (rewards - mean) / mean if mean > 0 and not _equal(rewards) else np.zeros(len(rewards))


@dataclass(frozen=True, slots=True)
class GroupNormalised:
    """Eq. 2. Which deviation the paper divides by is not reported (section 6.3), so `std` is a choice, as is `delta`.

    `baseline_offset` is taken off the baseline, so that what succeeds counts more than what fails, and what both share is held fast
    (Asymmetric REINFORCE, arXiv 2506.20520): rewards 1 and 0 have advantages 1 and -1, and 1.2 and -0.8 where it is offset by 0.1.
    """

    std: Literal["population", "sample"] = "population"
    delta: float = 1e-6
    baseline_offset: float = 0.0

    def __call__(self, group: Group) -> list[Floats]:
        return _broadcast(group, normalised(_rewards(group), self.std, self.delta, self.baseline_offset))


@dataclass(frozen=True, slots=True)
class MeanOnly:
    """Dr. GRPO: not divided by the deviation, which would weigh very easy and very hard tasks up."""

    def __call__(self, group: Group) -> list[Floats]:
        return _broadcast(group, mean_only(_rewards(group)))


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """RLOO: a baseline that does not contain the reward it is subtracted from, hence unbiased."""

    def __call__(self, group: Group) -> list[Floats]:
        return _broadcast(group, leave_one_out(_rewards(group)))


@dataclass(frozen=True, slots=True)
class LengthWeighted:
    """OPO: the baseline is the mean reward of the group's *tokens*, so that advantages add up to zero over tokens.

    A token-mean loss adds up tokens, not rollouts: where failures are the long ones, the advantages of `GroupNormalised` add up to less
    than zero there. Rewards 1 and 0 of 2 and 6 tokens give a baseline of 2/8 and, at
    a deviation of 0.5, advantages of 1.5 and -0.5: 2 x 1.5 = 6 x 0.5.
    `baseline_offset` is as in `GroupNormalised`: by 0.1, they are 1.7 and -0.3. What an attempt replays is not trained, and not counted.
    """

    delta: float = 1e-6
    baseline_offset: float = 0.0

    def __call__(self, group: Group) -> list[Floats]:
        rewards, lengths = (
            _rewards(group),
            np.array([_actions(rollout, rollout.trajectory.replayed) for rollout in group.rollouts], np.float64),
        )
        if _equal(rewards):
            return _broadcast(group, np.zeros(len(rewards)))
        centred: Rewards = rewards - (np.average(rewards, weights=lengths) - self.baseline_offset)
        return _broadcast(group, centred / (rewards.std() + self.delta))


@dataclass(frozen=True, slots=True)
class MeanScaled:
    """MaxRL: divided by the mean, so that a success weighs the more the rarer it is: 9 as the only one of ten attempts, 1/9 as one of nine.

    In expectation this is the gradient of log Pass@1 instead of Pass@1, cut off at as many terms as there are attempts. It is made for
    rewards of 0 and 1; a mean of 0 or less is nothing to divide by, and the advantages are 0.
    """

    def __call__(self, group: Group) -> list[Floats]:
        return _broadcast(group, mean_scaled(_rewards(group)))


@dataclass(frozen=True, slots=True)
class Returns:
    """REINFORCE: what each attempt earned, less a `baseline` that knows nothing of its group."""

    baseline: float = 0.0

    def __call__(self, group: Group) -> list[Floats]:
        return _broadcast(group, _rewards(group) - self.baseline)


@dataclass(frozen=True, slots=True)
class Ones:
    """Imitate everything that was selected: rejection fine-tuning, with cross-entropy as its objective."""

    def __call__(self, group: Group) -> list[Floats]:
        return _broadcast(group, np.ones(len(group.rollouts)))


def _rewards(group: Group) -> Rewards:
    return np.array([rollout.reward.value for rollout in group.rollouts], np.float64)


def _broadcast(group: Group, values: Rewards) -> list[Floats]:
    return [floats(np.full(_actions(rollout), value)) for rollout, value in zip(group.rollouts, values, strict=True)]


def _actions(rollout: Rollout, first: int = 0) -> int:
    """Action tokens from a turn on."""
    return sum(len(turn.action.token_ids) for turn in rollout.trajectory.turns[first:])
