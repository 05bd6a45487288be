"""What a stretch of turns changed in the chance of success, measured by those that went on after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attempts import attempt

from patchgrad.learning.advantages import Anchored, Branched, GroupNormalised
from patchgrad.values import Floats, Group, Reward, Rollout, Segment, Turn, floats

WHOLE = Branched(delta=0.0)


def fork(source: Rollout, place: int, name: str, reward: float, own: int) -> Rollout:
    """An attempt that goes on after the first turns of another one with `own` turns of two tokens."""
    more = attempt(name, [[(1, 2)] * own], reward).trajectory.turns
    turns: list[Turn] = list(source.trajectory.turns[:place])
    for turn in more:
        turns.append(replace(turn, parent=turns[-1].address))
    trajectory = replace(
        source.trajectory,
        id=name,
        segments=(Segment(tuple(turns)),),
        origin=source.trajectory.origin or source.trajectory.id,
        replayed=place,
    )
    return replace(attempt(name, [[(1, 2)]], reward), trajectory=trajectory, reward=Reward(reward, {}))


def turns(estimator: Branched | Anchored, *rollouts: Rollout) -> list[list[float]]:
    """The advantage of each turn; all tokens of one have the same."""
    found = []
    for rollout, row in zip(rollouts, estimator(Group(rollouts)), strict=True):
        sizes = [len(turn.action.token_ids) for turn in rollout.trajectory.turns]
        parts = np.split(row, np.cumsum(sizes)[:-1])
        assert all(len(set(part.tolist())) == 1 for part in parts)
        found.append([float(part[0]) for part in parts])
    return found


def test_the_example_of_the_docstring() -> None:
    one, two = attempt("a/0", [[(1, 2)] * 3], 1.0), attempt("a/1", [[(1, 2)] * 3], 0.0)
    group = (one, two, fork(two, 2, "a/1+2.0", 1.0, 1), fork(two, 2, "a/1+2.1", 0.0, 2))
    scaled = [[value * 0.5 for value in row] for row in turns(WHOLE, *group)]  # rewards 1 0 1 0 deviate by a half
    third = pytest.approx(1 / 3, abs=1e-5)
    assert scaled[0] == [third] * 3
    assert [-value for value in scaled[1]] == [third] * 3
    assert scaled[2] == [0, 0, pytest.approx(2 / 3, abs=1e-5)]
    assert scaled[3] == [0, 0, pytest.approx(-1 / 3, abs=1e-5), pytest.approx(-1 / 3, abs=1e-5)]


Tree = list[tuple[int, int, float]]
TREES = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4), st.sampled_from([0.0, 0.4, 1.0])), max_size=6)


def grown(rewards: list[float], forks: Tree) -> list[Rollout]:
    """Attempts of four turns, and forks of any of them, forks of forks included: (of which, after how many turns, reward)."""
    rollouts = [attempt(f"a/{n}", [[(1, 2)] * 4], reward) for n, reward in enumerate(rewards)]
    for number, (which, place, reward) in enumerate(forks):
        source = rollouts[which % len(rollouts)]
        rollouts.append(fork(source, min(place, len(source.trajectory.turns) - 1), f"fork/{number}", reward, 1 + number % 3))
    return rollouts


@given(st.lists(st.sampled_from([0.0, 0.4, 1.0]), min_size=2, max_size=5))
def test_without_forks_it_is_group_normalised(rewards: list[float]) -> None:
    group = Group(tuple(grown(rewards, [])))
    for one, two in zip(Branched(baseline_offset=0.1)(group), GroupNormalised(baseline_offset=0.1)(group), strict=True):
        assert np.allclose(one, two, atol=1e-5)


@given(st.lists(st.sampled_from([0.0, 0.4, 1.0]), min_size=2, max_size=4), TREES)
def test_the_stretches_of_an_attempt_add_up_to_its_reward_less_the_value_of_the_beginning(rewards: list[float], forks: Tree) -> None:
    rollouts = grown(rewards, forks)
    deviation = float(np.std([rollout.reward.value for rollout in rollouts]))
    places = {(rollout.trajectory.replayed, rollout.trajectory.turns[rollout.trajectory.replayed - 1].address) for rollout in rollouts}
    values: list[float] = []
    for row, rollout in zip(turns(WHOLE, *rollouts), rollouts, strict=True):
        taken, begun = rollout.trajectory.turns, rollout.trajectory.replayed
        assert not any(row[:begun]), "what is replayed teaches nothing"
        if begun == 0:
            stretches = [0, *(n for n in range(1, len(taken)) if (n, taken[n - 1].address) in places)]
            values.append(rollout.reward.value - deviation * sum(row[first] for first in stretches))
    if deviation:
        assert values == pytest.approx([values[0]] * len(values), abs=1e-4), "the beginning has one value"
    if deviation and not forks:
        assert values[0] == pytest.approx(np.mean(rewards), abs=1e-4)


def test_the_value_of_the_beginning_is_measured_by_those_that_began_there_and_not_by_their_forks() -> None:
    one, two = attempt("a/0", [[(1, 2)] * 2], 1.0), attempt("a/1", [[(1, 2)] * 2], 0.0)
    many = [fork(two, 1, f"a/1+1.{n}", 0.0, 1) for n in range(8)]
    found = turns(WHOLE, one, two, *many)
    spread = float(np.std([1.0] + [0.0] * 9))
    assert found[0] == pytest.approx([0.5 / spread] * 2), "eight failures of one fork do not make the task harder"
    assert found[1] == pytest.approx([-0.5 / spread, 0.0])


def test_steps_are_not_counted_again_for_what_a_fork_replays() -> None:
    def nothing(group: Group) -> list[Floats]:
        return [floats(np.zeros(sum(len(turn.action.token_ids) for turn in r.trajectory.turns))) for r in group.rollouts]

    one, two = attempt("a/0", [[(1, 2)] * 2], 1.0), attempt("a/1", [[(1, 2)] * 2], 0.0)
    found = turns(Anchored(nothing, weight=1.0, discount=1.0), one, two, fork(two, 1, "f", 0.0, 1))
    assert found[0][0] == pytest.approx(-found[1][0]) != 0, "the first turns are two, and not three of which two failed"
