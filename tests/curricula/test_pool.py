from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.curricula import Pool
from patchgrad.errors import ConfigError
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
