"""Attempts, groups and samples for tests of credit and learning: chains that verify, of tokens drawn from a small vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from patchgrad.learning.credit import by_group
from patchgrad.testing.tasks import a_task
from patchgrad.values import (
    Action,
    Call,
    Floats,
    Group,
    Malformed,
    Observation,
    Reward,
    Rollout,
    Sample,
    ScoredSample,
    Segment,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    WeightedSample,
    floats,
    ids,
)

VOCABULARY = 40
Shape = Sequence[Sequence[tuple[int, int]]]  # segments of turns of (context, action) tokens


def attempt(name: str, shape: Shape, reward: float = 0.0, task: str = "t", seed: int = 0, malformed: bool = False) -> Rollout:
    """An attempt solved where its reward is above 0; with `malformed` its first turn named no command."""
    random = np.random.default_rng([seed, *name.encode()])
    turns: list[Turn] = []
    segments: list[Segment] = []
    for spans in shape:
        own = []
        for context, action in spans:
            drawn = Action(ids(random.integers(0, VOCABULARY, action)), floats(-random.exponential(2.0, action) - 0.01), 0, "", "stop")
            call = Malformed("no command", "?") if malformed and not turns else Call("shell", str(len(turns)))
            parent = turns[-1].address if turns else "genesis"
            turns.append(Turn(ids(random.integers(0, VOCABULARY, context)), drawn, call, Observation("", ToolState()), "s", parent))
            own.append(turns[-1])
        segments.append(Segment(tuple(own)))
    verdict = Verdict(task, "", ("ran",), (TestOutcome("a", "fail_to_pass", "passed" if reward > 0 else "failed"),))
    trajectory = Trajectory(name, task, tuple(segments), "submitted", "")
    return Rollout(a_task(task, fail_to_pass=("a",)), trajectory, verdict, Reward(reward, {}))


def by_reward(group: Group) -> list[Floats]:
    """Each attempt's reward at each of its tokens."""
    return [floats(np.full(sum(len(t.action.token_ids) for t in r.trajectory.turns), r.reward.value)) for r in group.rollouts]


def samples(groups: Sequence[Group]) -> list[Sample]:
    """Every attempt's samples, with its reward for an advantage."""
    return [sample for unit in by_group(groups, by_reward) for sample in unit]


def alike(given: Sequence[Sample]) -> list[WeightedSample]:
    """Samples as they are packed where nobody but the sampler is asked, and nothing is corrected."""
    return [WeightedSample.alike(ScoredSample.as_sampled(sample)) for sample in given]


def some_groups(seed: int = 0, groups: int = 3, attempts: int = 4) -> list[Group]:
    """Groups of attempts of one to three turns, some in two segments, solved and not in each."""
    random = np.random.default_rng(seed)
    made = []
    for g in range(groups):
        rollouts = []
        for a in range(attempts):
            spans = [(int(random.integers(1, 5)), int(random.integers(1, 6))) for _ in range(int(random.integers(1, 4)))]
            shape = [spans[:1], spans[1:]] if len(spans) > 2 else [spans]
            rollouts.append(attempt(f"{g}/{a}", shape, float(a % 2 == 0) or -0.1 * a, f"t{g}", seed))
        made.append(Group(tuple(rollouts)))
    return made
