"""Which attempts teach: what a row of the table of algorithms selects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from patchgrad.errors import ConfigError
from patchgrad.values import Group, Rollout, Trajectory, digest


def sound(groups: Sequence[Group]) -> list[Group]:
    """The groups without attempts that infrastructure broke or that have no turn; a group without attempts is gone."""
    kept = (Group(tuple(rollout for rollout in group.rollouts if _sound(rollout))) for group in groups)
    return [group for group in kept if group.rollouts]


def contrast(groups: Sequence[Group], on: Literal["outcome", "reward"] = "outcome") -> list[Group]:
    """The groups whose attempts differ: DAPO's 0 < solved < G, or, `on="reward"`, any two rewards that differ.

    The paper says that samples of zero advantage are dropped; only the reading `outcome` fits its 2 to 8 steps (section 6.3).
    """
    if on == "outcome":
        return [group for group in sound(groups) if 0 < group.solve_rate < 1]
    return [group for group in sound(groups) if len({rollout.reward.value for rollout in group.rollouts}) > 1]


def solved_only(groups: Sequence[Group], cap_per_task: int | None = None, dedupe: bool = True) -> list[Group]:
    """The solved attempts, at most `cap_per_task` for each task, in order; `dedupe` keeps one of those that acted the same.

    The cap counts over all groups of a task, so that easy tasks do not fill the set.
    """
    if cap_per_task is not None and cap_per_task < 1:
        raise ConfigError(f"cap_per_task is {cap_per_task}; it must be at least 1, or None for no cap.")
    taken: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    chosen: list[Group] = []
    for group in sound(groups):
        kept: list[Rollout] = []
        for rollout in group.rollouts:
            task, actions = rollout.task.digest(), _actions(rollout.trajectory)
            if not rollout.solved or taken[task] == cap_per_task or (dedupe and (task, actions) in seen):
                continue
            taken[task] += 1
            seen.add((task, actions))
            kept.append(rollout)
        if kept:
            chosen.append(Group(tuple(kept)))
    return chosen


def _sound(rollout: Rollout) -> bool:
    return not rollout.broken and bool(rollout.trajectory.turns)


def _actions(trajectory: Trajectory) -> str:
    return digest(*(turn.action.token_ids.tobytes() for turn in trajectory.turns))
