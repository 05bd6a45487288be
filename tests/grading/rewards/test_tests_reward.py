"""The paper's reward, Eq. 3 and 4, at the values that section 6.2 lists."""

from __future__ import annotations

import pytest

from patchgrad.errors import ConfigError
from patchgrad.grading.rewards import Resolved, TurnPenalty, Unsubmitted, Weighted
from patchgrad.testing.tasks import a_task
from patchgrad.values import (
    NO_IDS,
    Action,
    Call,
    Observation,
    Segment,
    Stop,
    TestOutcome,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
)

TASK = a_task()
GOOD = Verdict("t", "p", ("applied", "collected", "ran"), (TestOutcome("a", "fail_to_pass", "passed"),))
BAD = Verdict("t", "p", ("applied", "collected", "ran"), (TestOutcome("a", "fail_to_pass", "failed"),))
TAMPERED = Verdict("t", "p", GOOD.stages, GOOD.tests, ("edited test a",))


def attempt(turns: int, stop: Stop = "submitted") -> Trajectory:
    turn = Turn(NO_IDS, Action(NO_IDS, floats([]), 0, "", "stop"), Call("shell", ""), Observation("", ToolState()), "", "")
    return Trajectory("x", "t", (Segment((turn,) * turns),), stop, "")


@pytest.mark.parametrize(
    ("stop", "value"), [("submitted", 0), ("repeats", -1), ("format errors", -1), ("turn limit", -1), ("sandbox lost", -1), ("failed", 0)]
)
def test_an_attempt_that_does_not_submit_costs_and_one_that_broke_does_not(stop: Stop, value: float) -> None:
    found = Weighted((Resolved(), Unsubmitted()), (1.0, 0.3))(TASK, attempt(5, stop), BAD)
    assert found.value == pytest.approx(0.3 * value)
    assert found.parts["unsubmitted"] == pytest.approx(0.3 * value)


@pytest.mark.parametrize(
    ("limit", "turns", "value"),
    [(40, 5, 0), (40, 10, 0), (40, 20, -1 / 3), (40, 25, -0.5), (40, 40, -1), (80, 20, -1 / 7), (80, 40, -3 / 7), (80, 80, -1)],
)
def test_the_turn_penalty_of_equation_4(limit: int, turns: int, value: float) -> None:
    assert TurnPenalty(10, limit)(TASK, attempt(turns), GOOD).value == pytest.approx(value)


@pytest.mark.parametrize(("length", "value"), [(16_384, 0.0), (18_432, -0.5), (20_480, -1.0)])
def test_it_is_the_overlong_penalty_of_dapo_counted_in_turns(length: int, value: float) -> None:
    assert TurnPenalty(20_480 - 4096, 20_480)(TASK, attempt(length), GOOD).value == pytest.approx(value)


def test_resolved_counts_what_was_submitted() -> None:
    assert Resolved()(TASK, attempt(1), GOOD).value == 1
    assert Resolved()(TASK, attempt(1), BAD).value == 0
    assert Resolved()(TASK, attempt(1), TAMPERED).value == 0
    assert Resolved()(TASK, attempt(1, "turn limit"), GOOD).value == 0
    assert Resolved(unsubmitted=True)(TASK, attempt(1, "turn limit"), GOOD).value == 1
    assert Resolved(unsubmitted=True)(TASK, attempt(1, "failed"), GOOD).value == 0


def test_the_parts_are_named_and_add_up() -> None:
    reward = Weighted((Resolved(), TurnPenalty(10, 40)))(TASK, attempt(25), GOOD)
    assert dict(reward.parts) == {"resolved": 1.0, "length": -0.5}
    assert reward.value == 0.5
    assert Weighted((Resolved(), TurnPenalty(10, 40)), (2.0, 0.5))(TASK, attempt(25), GOOD).value == 1.75


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError):
        TurnPenalty(10, 10)
    with pytest.raises(ConfigError):
        Weighted((Resolved(),), (1.0, 2.0))
    with pytest.raises(ConfigError):
        Weighted((Resolved(), Resolved()))(TASK, attempt(1), GOOD)
