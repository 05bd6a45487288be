from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.errors import ConfigError
from patchgrad.learning.curricula import Pool
from patchgrad.learning.curricula.plateau import plateaued
from patchgrad.values import Checks, Group, Repository, Reward, Rollout, Task, TestOutcome, Trajectory, Verdict


def a_task(name: str) -> Task:
    return Task(name, "", Repository("archive", "", ""), Checks(("t::a",), ()))


def a_group(name: str, solved: int, of: int) -> Group:
    task = a_task(name)
    outcomes = [TestOutcome("t::a", "fail_to_pass", "passed" if i < solved else "failed") for i in range(of)]
    return Group(
        tuple(
            Rollout(task, Trajectory(str(i), name, (), "submitted", ""), Verdict(name, "", ("ran",), (outcome,)), Reward(0.0, {}))
            for i, outcome in enumerate(outcomes)
        )
    )


@given(st.integers(1, 9), st.integers(0, 5), st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_no_task_comes_again_before_every_task_came(tasks: int, seed: int, draws: list[int]) -> None:
    pool = Pool([a_task(str(i)) for i in range(tasks)], seed)
    drawn = [task.id for n in draws for task in pool.draw(n)]
    for start in range(0, len(drawn), tasks):
        assert len(set(drawn[start : start + tasks])) == len(drawn[start : start + tasks])


@given(st.integers(1, 9), st.integers(0, 20))
def test_a_restored_pool_draws_what_the_first_one_would_have_drawn(tasks: int, before: int) -> None:
    members = [a_task(str(i)) for i in range(tasks)]
    pool = Pool(members, 0)
    pool.draw(before)
    other = Pool(members, 7)
    other.restore(json.loads(json.dumps(pool.state())))
    assert [t.id for t in other.draw(12)] == [t.id for t in pool.draw(12)]


def test_the_refresh_drops_tasks_solved_in_two_thirds_of_all_attempts_and_tasks_never_solved() -> None:
    pool = Pool([a_task(name) for name in ("easy", "fine", "hard", "untried")], 0)
    for name, solved in (("easy", 2), ("fine", 1), ("hard", 0)):
        pool.observe(a_group(name, solved, 3))
    assert set(pool.refreshed().state()["tasks"]) == {"fine", "untried"}


def test_a_second_refresh_knows_what_came_before_the_first() -> None:
    pool = Pool([a_task("fine")], 0)
    pool.observe(a_group("fine", 2, 4))
    later = pool.refreshed()
    later.observe(a_group("fine", 0, 4))
    assert later.kept() == ["fine"], "solved in two of eight"
    later.observe(a_group("fine", 30, 30))
    assert later.kept() == []


def test_a_refresh_that_would_leave_nothing_keeps_the_pool() -> None:
    pool = Pool([a_task("easy")], 0)
    pool.observe(a_group("easy", 3, 3))
    assert len(pool.refreshed()) == 1


def test_a_state_with_foreign_tasks_is_refused() -> None:
    state = Pool([a_task("other")], 0).state()
    with pytest.raises(ConfigError, match="does not have"):
        Pool([a_task("mine")], 0).restore(state)


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty"):
        Pool([], 0)


def test_what_infrastructure_broke_is_no_outcome() -> None:
    pool = Pool([a_task(name) for name in ("a", "b")], 0)
    pool.draw(2)
    group = a_group("a", 0, 2)
    broken = replace(group.rollouts[0], verdict=replace(group.rollouts[0].verdict, fault="no sandbox"))
    pool.observe(Group((broken, broken)))
    assert pool.state()["attempts"] == {}
    assert set(pool.refreshed().state()["tasks"]) == {"a", "b"}, "a task that was never tried stays"


def test_the_state_of_a_run_begun_before_outcomes_were_kept_by_draw_is_read() -> None:
    pool = Pool([a_task("a")], 0)
    older = {name: value for name, value in pool.state().items() if name != "iterations"}
    pool.restore(older)
    assert pool.state()["iterations"] == []


# --- when nothing is learned any more ------------------------------------------------------------


def outcomes(chances: Sequence[float], seed: int, tasks: int = 60, attempts: int = 8) -> list[list[float]]:
    """Shares solved of so many tasks an iteration, each as hard as it is."""
    draw = np.random.default_rng(seed)
    ease = draw.beta(0.5, 0.5, (len(chances), tasks))  # most tasks are solved nearly always or nearly never
    solved = draw.binomial(attempts, np.clip(ease + np.array(chances)[:, None] - 0.5, 0, 1))
    return [[float(share) for share in row] for row in solved / attempts]


def test_a_plateau_is_told_as_often_as_is_claimed() -> None:
    flat = np.mean([plateaued(outcomes([0.5] * 6, seed), 3) for seed in range(400)])
    steep = np.mean([plateaued(outcomes([0.3, 0.3, 0.3, 0.5, 0.5, 0.5], seed), 3) for seed in range(400)])
    assert 0.78 < flat < 0.90
    assert steep < 0.02


def test_no_plateau_is_told_before_there_is_enough_to_compare_or_of_no_window() -> None:
    same = [[0.5, 0.5]] * 5
    assert not plateaued(same, 3)
    assert plateaued([*same, [0.5, 0.5]], 3)
    assert not plateaued(same, 0)
    assert not plateaued([[], *same], 3), "an iteration without outcomes is none"


def test_a_pool_tells_of_its_own_draws_and_remembers_them() -> None:
    pool = Pool([a_task(name) for name in ("a", "b")], 0)
    for solved in (0, 0, 2, 2):
        for task in pool.draw(2):
            pool.observe(a_group(task.id, solved, 2))
    assert not pool.plateaued(2)
    pool.restore(json.loads(json.dumps(pool.state())))
    for _ in range(2):
        for task in pool.draw(2):
            pool.observe(a_group(task.id, 2, 2))
    assert pool.plateaued(2)
    pool.begin()
    pool.restore(json.loads(json.dumps(pool.state())))
    for _ in range(4):
        assert not pool.plateaued(2), "a new stage is told of its own draws alone"
        for task in pool.draw(2):
            pool.observe(a_group(task.id, 2, 2))
    assert pool.plateaued(2)
