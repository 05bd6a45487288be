"""Advantages that differ from turn to turn of one attempt, without a critic: what else was done in the same state, and what came of it.

| estimator  | advantage of a turn                                  | from             |
|------------|------------------------------------------------------|------------------|
| `Anchored` | of its attempt + weight x of the step from its state | GiGPO 2505.10978 |
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, pstdev

import numpy as np

from patchgrad.contracts import Estimator
from patchgrad.values import Floats, Group, ToolState, Trajectory, floats

Anchor = tuple[str, ToolState] | None


@dataclass(frozen=True, slots=True)
class Anchored:
    """An attempt's advantage, plus `weight` times that of each turn among the turns that began in the same state.

    A turn's return is the attempt's reward, discounted for every turn that came after it; its step advantage is the return less the mean
    return of all turns of the group that began in its state, divided by the deviation of the group's rewards. A state is the address of
    the files and where the agent stood, so edits that a test refused and `git restore` undid are all steps from one state: the one that
    repaired it stands above the ones that did not, in the same attempt as well, and above a submission that gave up. Turns that a fork
    replays are not counted.

    At a discount of 0.5, take an attempt that edits in vain, edits right and submits (reward 1), and one that edits in vain and submits
    (reward 0). Four turns began in the untouched files, with returns 0.25, 0.5, 0 and 0; their mean is 0.1875, the deviation 0.5, and the
    steps' advantages are 0.125, 0.625, -0.375 and -0.375. The right submission is alone in its state: 0.
    """

    attempt: Estimator
    weight: float = 1.0
    discount: float = 0.7
    delta: float = 1e-6

    def __call__(self, group: Group) -> list[Floats]:
        rewards = [rollout.reward.value for rollout in group.rollouts]
        trajectories = [rollout.trajectory for rollout in group.rollouts]
        begun = [_anchors(trajectory) for trajectory in trajectories]
        returns = [
            [reward * self.discount**after for after in reversed(range(len(anchors)))]
            for reward, anchors in zip(rewards, begun, strict=True)
        ]
        seen: dict[Anchor, list[float]] = defaultdict(list)
        for trajectory, anchors, values in zip(trajectories, begun, returns, strict=True):
            for anchor, value in list(zip(anchors, values, strict=True))[trajectory.replayed :]:
                seen[anchor].append(value)
        means = {anchor: fmean(values) for anchor, values in seen.items()}
        scale = self.weight / (pstdev(rewards) + self.delta) if len(set(rewards)) > 1 else 0.0
        steps = [
            [scale * (value - means.get(at, value)) for at, value in zip(*pair, strict=True)] for pair in zip(begun, returns, strict=True)
        ]
        whole = self.attempt(group)
        return [floats(w + _spread(t, s)) for w, t, s in zip(whole, trajectories, steps, strict=True)]


def _anchors(trajectory: Trajectory) -> list[Anchor]:
    """The state in which each turn began; the first one's, before anything was done, is `None`."""
    return [None, *((turn.state, turn.observation.tool_state) for turn in trajectory.turns[:-1])]


def _spread(trajectory: Trajectory, values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.repeat(np.array(values), [len(turn.action.token_ids) for turn in trajectory.turns])
