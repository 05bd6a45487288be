"""Groups that are trained again: how often each is drawn, how much it counts, when it goes, and whether the policy is still near to it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attempts import attempt, some_groups
from tests.learning.test_loop import GROUPS, ROW, SIZES, same, trainer

from patchgrad.learning.advantages import Ones
from patchgrad.learning.credit import by_group
from patchgrad.learning.loop import learn
from patchgrad.learning.packing import scored
from patchgrad.learning.recall import compared, effective
from patchgrad.learning.replay import Buffer, Kept, Made, Priorities, Recalled, systematic
from patchgrad.rollouts.attempts import grouped
from patchgrad.values import Action, Floats, Group, Rollout, Segment, floats

torch.set_num_threads(1)
HOW = Priorities(2)
POINTS = 1000


def kept(number: int, variance: float, iteration: int = 0, uses: int = 0) -> Kept:
    return Kept(iteration, f"task {number}", f"{iteration}/{number}", variance, (0,), uses)


def group(task: str, rewards: list[float], iteration: int = 0) -> Group:
    """Attempts at a task with these rewards."""
    return Group(tuple(attempt(f"stage1/{iteration}/{task}/{n}", [[(2, 2)]], reward, task) for n, reward in enumerate(rewards)))


def made(iteration: int, *groups: Group) -> Made:
    return Made(iteration, groups, groups, (iteration,))


def recalled(group: Group, weight: float = 1.0) -> Recalled:
    return Recalled(Kept(0, group.task.id, group.rollouts[0].trajectory.id.rpartition("/")[0], 0.25, (0,)), weight, group)


BUFFERS = st.lists(st.tuples(st.floats(1e-3, 0.25), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(BUFFERS, st.integers(1, 5), st.floats(0, 1))
def test_a_group_is_drawn_as_often_as_its_priority_says(entries: list[tuple[float, int, int]], groups: int, alpha: float) -> None:
    kept_ones = [kept(n, *entry) for n, entry in enumerate(entries)]
    chances = np.array([one.priority(4, alpha) for one in kept_ones])
    expected = min(groups, len(entries)) * chances / chances.sum()
    counts = np.array([systematic(expected.tolist(), (n + 0.5) / POINTS) for n in range(POINTS)])
    assert ((counts >= np.floor(expected - 1e-9)) & (counts <= np.ceil(expected + 1e-9))).all()
    assert counts.mean(axis=0) == pytest.approx(expected, abs=2 / POINTS)
    assert (counts.sum(axis=1) == min(groups, len(entries))).all()


@settings(max_examples=50, deadline=None)
@given(BUFFERS, st.integers(1, 4), st.integers(0, 99))
def test_with_a_beta_of_one_the_mean_over_draws_is_that_over_the_buffer(
    entries: list[tuple[float, int, int]], groups: int, seed: int
) -> None:
    buffer = Buffer([kept(n, *entry) for n, entry in enumerate(entries)])
    priorities = [one.priority(4, 0.6) for one in buffer.kept]
    drawn = buffer.draw(4, Priorities(groups, alpha=0.6, beta=1.0), seed)
    times = [weight * len(entries) * one.priority(4, 0.6) / sum(priorities) for one, weight in drawn]
    assert times == pytest.approx([round(number) for number in times]), "a draw counts 1 / (N P), and P is how often it comes"
    assert sum(times) == pytest.approx(min(groups, len(entries)))


def test_what_is_half_solved_new_and_unused_comes_first() -> None:
    priorities = [
        one.priority(3, 1.0)
        for one in (kept(0, 0.25, 2), kept(1, 0.09, 2), kept(2, 0.25, 0), kept(3, 0.25, 2, uses=1), kept(4, 0.25, 0, uses=2))
    ]
    assert priorities == pytest.approx([0.25, 0.09, 0.25 / 3, 0.125, 0.25 / 9])
    assert kept(1, 0.09, 0).priority(3, 0.0) == 1.0


def test_a_group_whose_rewards_are_alike_is_not_kept() -> None:
    buffer = Buffer()
    buffer.observe(made(0, group("a", [1, 0]), group("b", [0, 0]), group("c", [1, 1])), (), HOW)
    assert [(one.task, one.group, one.variance) for one in buffer.kept] == [("a", "stage1/0/a", 0.25)]


def test_what_the_algorithm_did_not_choose_is_not_kept_and_still_says_how_its_task_stands() -> None:
    buffer = Buffer()
    first = group("a", [1, 0])
    buffer.observe(made(0, first), (), HOW)
    now = group("a", [1, 1], 1)
    assert buffer.observe(Made(1, [now], [], (1,)), (), HOW) == 0
    assert buffer.kept == []


def test_the_next_group_of_a_task_replaces_the_one_before() -> None:
    buffer = Buffer()
    buffer.observe(made(0, group("a", [1, 0]), group("b", [1, 0])), (), HOW)
    buffer.observe(made(1, group("a", [1, 0, 0, 0], 1)), (), HOW)
    assert [(one.task, one.iteration) for one in buffer.kept] == [("b", 0), ("a", 1)]


def test_a_group_goes_when_it_is_too_old_was_trained_often_enough_or_is_no_longer_near() -> None:
    how = replace(HOW, age=2, uses=2)
    buffer = Buffer()
    buffer.observe(made(0, group("a", [1, 0])), (), how)
    assert buffer.observe(made(1), (), how) == 0
    assert [one.task for one in buffer.kept] == ["a"], "iteration 2 may train it again: two after its own"
    assert buffer.observe(made(2), (), how) == 1
    assert buffer.kept == []

    buffer.observe(made(0, group("a", [1, 0]), group("b", [1, 0])), (), how)
    for uses in (1, 2):
        a = [Recalled(one, 1.0, group("a", [1, 0])) for one in buffer.kept if one.task == "a"]
        b = [Recalled(one, 1.0, group("b", [1, 0]), near=False) for one in buffer.kept if one.task == "b"]
        assert buffer.observe(made(0), [*a, *b], how) == 0
        assert [(one.task, one.uses) for one in buffer.kept] == ([("a", 1)] if uses == 1 else [])


def test_a_buffer_goes_on_from_its_state_as_it_would_have() -> None:
    buffer = Buffer([kept(n, 0.05 * (n + 1), n % 3) for n in range(6)])
    again = Buffer.restored(json.loads(json.dumps(buffer.state())))
    assert again == buffer
    assert all(again.draw(4, HOW, seed) == buffer.draw(4, HOW, seed) for seed in range(20))


def test_an_empty_buffer_gives_nothing() -> None:
    assert Buffer().draw(3, HOW, 0) == []


# --- what it teaches -----------------------------------------------------------------------------


def test_a_recalled_group_that_counts_once_teaches_as_a_group_of_the_iteration() -> None:
    together, recalling = trainer(), trainer()
    learn(GROUPS, ROW, together, SIZES, 0)
    (update,) = learn(GROUPS[:-1], ROW, recalling, replace(SIZES, recalled=[recalled(GROUPS[-1])]), 0).updates
    assert same(together, recalling)
    assert update.metrics["trained"] > 0


def test_a_recalled_group_counts_as_much_as_its_weight_says() -> None:
    losses = [
        learn(GROUPS[:-1], ROW, trainer(), replace(SIZES, recalled=[recalled(GROUPS[-1], weight)]), 0).updates[0].metrics["loss"]
        for weight in (0.5, 1.0, 2.0)
    ]
    assert losses[2] - losses[1] == pytest.approx(2 * (losses[1] - losses[0]), rel=1e-3)
    assert abs(losses[1] - losses[0]) > 1e-6


def _sampled_by(rollout: Rollout, values: list[Floats]) -> Rollout:
    """The attempt with these log-probabilities, an array for each segment."""
    segments = []
    for segment, said in zip(rollout.trajectory.segments, values, strict=True):
        cuts = np.cumsum([len(turn.action.token_ids) for turn in segment.turns])[:-1]
        parts = zip(segment.turns, np.split(said, cuts), strict=True)
        segments.append(
            Segment(tuple(replace(turn, action=Action(turn.action.token_ids, floats(part), 0, "", "stop")) for turn, part in parts))
        )
    return replace(rollout, trajectory=replace(rollout.trajectory, segments=tuple(segments)))


def test_an_effective_share_is_one_where_nothing_changed_and_falls_where_the_policy_moved() -> None:
    now, before = trainer(0), trainer(7)
    whole = some_groups()[0]
    samples = [sample for unit in by_group([whole], Ones()) for sample in unit]
    found = {}
    for name, one in (("now", now), ("before", before)):
        said = iter(scored(samples, one.score, 400))
        found[name] = Group(tuple(_sampled_by(r, [next(said) for _ in r.trajectory.segments]) for r in whole.rollouts))
    near, far = compared([recalled(found["now"]), recalled(found["before"])], now, replace(SIZES, least_ess=0.999))
    assert near.ess == pytest.approx(1.0, abs=1e-6)
    assert near.near
    assert far.ess < 0.999
    assert not far.near


def test_an_effective_share_is_that_of_the_weights() -> None:
    assert effective(floats(np.log([1.0, 2.0]))) == pytest.approx(0.9)
    assert effective(floats([0.3] * 5)) == pytest.approx(1.0)
    assert effective(floats([20.0, 0, 0, 0])) == pytest.approx(0.25, abs=1e-3)


def test_attempts_are_grouped_by_their_names() -> None:
    rollouts = [one for task in "ab" for one in group(task, [1, 0]).rollouts]
    assert {name: len(found.rollouts) for name, found in grouped(rollouts).items()} == {"stage1/0/a": 2, "stage1/0/b": 2}
