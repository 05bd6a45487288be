"""Small values for the checks: tasks, turns and attempts whose chains verify, graded as they are said to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchgrad.values import (
    Action,
    Call,
    Checks,
    Group,
    Malformed,
    Observation,
    Origin,
    Repository,
    Reward,
    Rollout,
    Segment,
    Stop,
    Task,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
    ids,
    root_address,
)

TASK = Task(
    "example", "The total is wrong.", Repository("archive", "", ""), Checks(("tests/test_a.py::test_b",), ("tests/test_a.py::test_c",))
)
PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 2\n y = 0\n"
NO_STATE = "no state"


@dataclass(frozen=True, slots=True)
class Shape:
    """What an example of an attempt is to be: action tokens of each turn, how many turns its segments have, and what came of it."""

    actions: tuple[int, ...] = (3, 2)
    segments: tuple[int, ...] = ()
    stop: Stop = "submitted"
    resolved: bool = True
    reward: float = 1.0
    submission: str = PATCH


SOLVED = Shape()


def example_turn(parent: str, said: str = "ls", tokens: int = 3, state: str = NO_STATE) -> Turn:
    """A turn after the parent that calls the shell; with equal arguments the same turn, so with one address."""
    random = np.random.default_rng([tokens, *said.encode()])
    drawn = floats(-random.exponential(1.0, tokens) - 0.01)
    action = Action(ids(random.integers(0, 40, tokens)), drawn, 0, said, "stop", origin=Origin("prefix", "fingerprint"))
    return Turn(ids(random.integers(0, 40, 2)), action, Call("shell", said), Observation(f"it said {said}", ToolState()), state, parent)


def malformed_turn(parent: str) -> Turn:
    """A turn in which the policy named no command."""
    turn = example_turn(parent, "nothing")
    observation = Observation("Give a command.", ToolState("/testbed/shop", "/testbed/shop/a.py", 4), failure="malformed")
    return Turn(turn.context, turn.action, Malformed("no command", "Give a command."), observation, turn.state, parent)


def example_rollout(name: str, shape: Shape = SOLVED, prefix: Sequence[Turn] = (), origin: str = "") -> Rollout:
    """A graded attempt of this shape; a fork where it begins after a prefix of another one's turns."""
    turns = list(prefix)
    for number, tokens in enumerate(shape.actions):
        turns.append(example_turn(turns[-1].address if turns else root_address(TASK, name), f"{name} {number}", tokens))
    segments, left = [], turns
    for count in shape.segments or (len(turns),):
        segments.append(Segment(tuple(left[:count])))
        left = left[count:]
    trajectory = Trajectory(
        name, TASK.id, tuple(segment for segment in segments if segment.turns), shape.stop, shape.submission, 1.5, origin, len(prefix)
    )
    return Rollout(TASK, trajectory, example_verdict(shape.resolved), Reward(shape.reward, {"resolved": shape.reward}))


def example_verdict(resolved: bool) -> Verdict:
    """Both tests of the example were run; the one that is to be repaired holds or not."""
    tests = (
        TestOutcome("tests/test_a.py::test_b", "fail_to_pass", "passed" if resolved else "failed"),
        TestOutcome("tests/test_a.py::test_c", "pass_to_pass", "passed"),
    )
    return Verdict(TASK.id, "", ("applied", "collected", "ran"), tests, seconds=0.5)


def example_attempts() -> list[Rollout]:
    """Attempts of every kind that graders, rewards and judges meet: each way to end, solved and not, with and without a patch."""
    stops: tuple[Stop, ...] = (
        "submitted",
        "turn limit",
        "context limit",
        "time limit",
        "format errors",
        "repeats",
        "abstained",
        "sandbox lost",
        "failed",
    )
    made = [
        example_rollout(f"{stop}/{resolved}/{len(patch)}", Shape((3,) * turns, (), stop, resolved, float(resolved), patch))
        for stop in stops
        for resolved, patch, turns in ((True, PATCH, 2), (False, PATCH, 45), (False, "", 1))
    ]
    nothing = example_rollout("nothing", Shape((), (), "failed", False, 0.0, ""))
    broken = Rollout(TASK, nothing.trajectory, Verdict(TASK.id, "", (), (), fault="the sandbox broke"), Reward(0.0, {}))
    whole = made[0]
    tampered = Verdict(TASK.id, "", whole.verdict.stages, whole.verdict.tests, tamper=("tests/test_a.py",))
    odd = example_rollout("odd", Shape((1,), submission="GIT binary patch\n\nliteral 0\n\x00\udcff +++ \n--- \n+\n-"))
    return [*made, nothing, broken, Rollout(TASK, whole.trajectory, tampered, whole.reward), odd]


def example_group(rewards: Sequence[float], name: str = "group", forks: bool = False) -> Group:
    """Attempts at one task with these rewards and unequal lengths, one of two segments; with `forks`, two more that go on after one."""
    shapes = ((3, 2), (1, 4, 2), (5,), (2, 2, 2, 1))
    rollouts = [
        example_rollout(f"{name}/{n}", Shape(shapes[n % 4], (1, 2) if n % 4 == 1 else (), "submitted", reward > 0, reward))
        for n, reward in enumerate(rewards)
    ]
    if forks:
        stem = rollouts[1].trajectory
        for n, reward in enumerate((1.0, 0.0)):
            rollouts.append(example_rollout(f"{name}/fork {n}", Shape((2, 3), reward=reward, resolved=reward > 0), stem.turns[:2], stem.id))
    return Group(tuple(rollouts))
