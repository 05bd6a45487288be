"""Attempts that break by what the policy does are told apart from those that machines break."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from patchgrad.recipes.bounds import Guards
from patchgrad.runs.guards import Watch, figures
from patchgrad.runs.suspicion import by_action, by_version
from patchgrad.testing.examples import TASK
from patchgrad.values import (
    NO_IDS,
    Action,
    Call,
    Group,
    Observation,
    Reward,
    Rollout,
    Segment,
    ToolState,
    Trajectory,
    Turn,
    Verdict,
    floats,
)

COMMANDS = {"pytest -q": 2.0, "cat a.py": 0.01, "sed -i s/a/b/ a.py": 0.01, "ls": 0.01}


def attempt(number: int, commands: list[str], broken: bool) -> Rollout:
    """An attempt at these commands, the last of which broke its sandbox, or did not."""
    turns = []
    for place, command in enumerate(commands):
        failed = broken and place == len(commands) - 1
        seconds, failure = (0.0, "infrastructure") if failed else (COMMANDS.get(command, 0.1), None)
        seen = Observation("", ToolState(), seconds=seconds, failure=failure)  # type: ignore[arg-type]
        turns.append(Turn(NO_IDS, Action(NO_IDS, floats([]), 0, "", "stop"), Call("shell", command), seen, "", ""))
    done = Trajectory(f"a/{number}", "t", (Segment(tuple(turns)),), "failed" if broken else "submitted", "")
    return Rollout(TASK, done, Verdict("t", "", (), ()), Reward(0.0, {}))


def groups(broken: dict[int, list[str]], attempts: int = 100) -> list[Group]:
    return [Group((attempt(number, broken.get(number, list(COMMANDS)), number in broken),)) for number in range(attempts)]


def test_breaks_in_one_rare_command_are_suspicious() -> None:
    found = by_action(groups({number: ["ls", "truncate -s 9T x"] for number in range(8)}))
    assert Guards().broken_by_action.crossed(found["broken_by_action"]) == "stop"


def test_breaks_where_the_time_goes_are_not() -> None:
    draw, kinds = random.Random(0), list(COMMANDS)
    for _ in range(200):
        ends = draw.choices(kinds, list(COMMANDS.values()), k=10)
        found = by_action(groups({number: ["ls", end] for number, end in enumerate(ends)}))
        assert Guards().broken_by_action.crossed(found["broken_by_action"]) == ""


@pytest.mark.parametrize("broken", [0, 1, 4])
def test_of_few_breaks_nothing_is_said(broken: int) -> None:
    assert by_action(groups({number: ["truncate -s 9T x"] for number in range(broken)})) == {}
    assert by_version(broken, 100, [{"episodes": 100, "broken": 0.0}]) == {}


def test_more_breaks_than_under_earlier_weights_are_suspicious_and_as_many_are_not() -> None:
    earlier = [{"episodes": 98, "broken": 0.02}] * 5
    level = Guards().broken_by_version.crossed
    assert [level(by_version(broken, 100, earlier)["broken_by_version"]) for broken in (5, 20, 60)] == ["", "warn", "stop"]
    assert by_version(60, 100, []) == {}, "nothing was earlier"
    assert by_version(60, 100, [{"episodes": 0}]) == {}, "an iteration in which all broke says nothing of what is usual"


def test_a_suspicion_that_stays_ends_the_run_and_says_why() -> None:
    watch = Watch(replace(Guards(), patience=2))
    row = {"phase": "stage1", "broken": 0.1, "broken_by_action": 7.5}
    assert watch.see(figures(row))[1] == ""
    assert "the policy may break its sandboxes on purpose" in watch.see(figures(row))[1]
