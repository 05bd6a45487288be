"""Attempts at tasks that are too hard or too easy begin after turns of earlier ones."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.attempts import attempt

from patchgrad.learning.curricula import Prefixes
from patchgrad.values import Group, Rollout, Stop, Task, Turn, root_address


class Known:
    """A journal of attempts, and the prefixes that read it."""

    def __init__(self) -> None:
        self.turns: dict[tuple[str, str], tuple[Turn, ...]] = {}
        self.prefixes = Prefixes(lambda name, beginning: (self.turns[name, beginning], None))
        self.played = 0

    def play(self, task: Task, outcomes: list[bool], turns: int = 8, stop: Stop = "submitted") -> int:
        """A group of such outcomes; how many turns it replayed."""
        start = self.prefixes.start(task, *LIMITS)
        rollouts: list[Rollout] = []
        for solved in outcomes:
            made = replace(attempt(f"a/{self.played}", [[(1, 2)] * turns], float(solved)), task=task)
            self.turns[made.trajectory.id, root_address(task, made.trajectory.id)] = made.trajectory.turns
            rollouts.append(replace(made, trajectory=replace(made.trajectory, origin=start.origin, replayed=len(start.prefix), stop=stop)))
            self.played += 1
        self.prefixes.observe(Group(tuple(rollouts)))
        return len(start.prefix)


TASK = attempt("x", [[(1, 2)]]).task
LIMITS = (12, 1000)
ONE_IN_20 = [True] + [False] * 19


def test_a_hard_task_begins_after_half_of_a_success_and_moves_to_where_half_succeed() -> None:
    known = Known()
    assert known.play(TASK, ONE_IN_20) == 0
    assert known.play(TASK, [True] * 7 + [False] * 3) == 4
    assert known.play(TASK, [False] * 10) == 2
    assert known.play(TASK, [False] * 10) == 5
    assert known.play(TASK, [True] * 10) == 6
    taken = known.prefixes.start(TASK, *LIMITS)
    assert taken.origin == "a/0"
    assert [turn.address for turn in taken.prefix] == [turn.address for turn in known.turns["a/0", root_address(TASK, "a/0")]][:3]


def test_an_easy_task_begins_after_half_of_a_failure_and_goes_on_to_its_end_while_it_stays_easy() -> None:
    known = Known()
    assert known.play(TASK, [False] + [True] * 9) == 0
    assert known.play(TASK, [True] * 10) == 4
    assert known.play(TASK, [True] * 10) == 6
    assert known.play(TASK, [False] * 10) == 7, "never the last turn"
    assert known.prefixes.start(TASK, *LIMITS).origin == "a/0"


def test_a_task_of_middling_length_and_one_never_solved_begin_at_the_beginning() -> None:
    known = Known()
    known.play(TASK, [True, False])
    assert known.play(TASK, [True, False]) == 0
    never = replace(TASK, id="never")
    known.play(never, [False] * 20)
    assert known.play(never, [False]) == 0


def test_a_task_never_solved_goes_on_after_an_attempt_that_ran_into_a_limit_and_then_comes_back() -> None:
    known = Known()
    known.play(TASK, [False] * 20, stop="turn limit")
    assert [known.play(TASK, [False] * 10) for _ in range(5)] == [4, 2, 1, 0, 0]
    found = Known()
    found.play(TASK, [False] * 20, stop="turn limit")
    assert [found.play(TASK, [True] * 10) for _ in range(4)] == [4, 2, 1, 0], "where it is solved it comes back as well"
    assert found.prefixes.start(TASK, *LIMITS).origin != "a/19", "and has a success to begin after now, or needs none"


def test_a_start_that_has_come_back_to_the_beginning_is_counted_there_again() -> None:
    known = Known()
    known.play(TASK, ONE_IN_20, turns=3)
    assert [known.play(TASK, [True] * 10, turns=3) for _ in range(3)] == [2, 1, 0]
    assert known.prefixes.state()[TASK.id]["attempts"] == 20 / 2 + 10


def test_a_task_that_is_as_hard_again_from_its_beginning_begins_after_half_of_its_success_once_more() -> None:
    known = Known()
    known.play(TASK, ONE_IN_20, turns=3)
    assert [known.play(TASK, [True] * 10, turns=3) for _ in range(2)] == [2, 1]
    assert [known.play(TASK, [False] * 10, turns=3) for _ in range(2)] == [0, 2]


def test_what_is_longer_than_the_next_attempts_may_be_is_not_what_they_go_on_after() -> None:
    known = Known()
    known.play(TASK, ONE_IN_20)
    assert len(known.prefixes.start(TASK, turns=8, context=1000).prefix) == 4
    assert not known.prefixes.start(TASK, turns=7, context=1000).prefix
    tokens = sum(len(turn.context) + len(turn.action.token_ids) for turn in known.turns["a/0", root_address(TASK, "a/0")])
    assert known.prefixes.start(TASK, turns=8, context=tokens).prefix
    assert not known.prefixes.start(TASK, turns=8, context=tokens - 1).prefix


def test_what_an_earlier_policy_failed_at_counts_half() -> None:
    known = Known()
    known.play(TASK, [False] * 10)
    known.play(TASK, [True] * 4 + [False] * 6)
    assert not known.prefixes.start(TASK, *LIMITS).prefix, "4 of 15, where 4 of 20 would be hard"


def test_forks_of_the_group_s_own_turns_do_not_move_the_start() -> None:
    known = Known()
    known.play(TASK, ONE_IN_20)
    share = known.prefixes.state()[TASK.id]["share"]
    rollouts = [attempt(f"b/{n}", [[(1, 2)] * 8], float(n > 0)) for n in range(4)]
    moved = [replace(r, trajectory=replace(r.trajectory, replayed=4 if n == 0 else 6)) for n, r in enumerate(rollouts)]
    known.prefixes.observe(Group(tuple(moved)))
    assert known.prefixes.state()[TASK.id]["share"] > share, "the one attempt that began after the prefix failed"


@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=6), max_size=6), st.integers(1, 5))
def test_prefixes_restored_from_their_state_begin_where_the_first_ones_do(groups: list[list[bool]], turns: int) -> None:
    known = Known()
    for outcomes in groups:
        known.play(TASK, outcomes, turns)
    again = Prefixes(lambda name, beginning: (known.turns[name, beginning], None))
    again.restore(json.loads(json.dumps(known.prefixes.state())))
    assert again.start(TASK, *LIMITS) == known.prefixes.start(TASK, *LIMITS)
    assert len(again.start(TASK, *LIMITS).prefix) < turns
