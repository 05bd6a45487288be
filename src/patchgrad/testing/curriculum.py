"""What every curriculum must hold, as one function that its author runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from patchgrad.contracts import Curriculum
from patchgrad.testing.tasks import a_task
from patchgrad.values import Group, Reward, Rollout, Task, TestOutcome, Trajectory, Verdict

TASKS = tuple(a_task(f"task {i}", fail_to_pass=("t::a",)) for i in range(7))


def check_curriculum(make: Callable[[Sequence[Task]], Curriculum]) -> None:
    """Raises `AssertionError` for the first rule that a curriculum breaks; `make(tasks)` gives a fresh one, equal to the last.

    A draw has as many tasks as were asked for, all from those given, also when more are asked for than there are; outcomes are observed
    whatever became of the attempts; equal curricula that saw the same outcomes draw the same; the state is data that JSON holds, asking for
    it changes nothing, and what happens later does not change it; and a curriculum restored from it goes on as the first one does,
    whatever it has seen before and as often as it is restored.
    """
    one, two = make(TASKS), make(TASKS)
    for number in (0, 1, 3, 2 * len(TASKS)):
        drawn = one.draw(number)
        assert len(drawn) == number, f"a draw of {number} tasks gave {len(drawn)}"
        assert all(task in TASKS for task in drawn), "only given tasks are drawn"
        assert _names(two.draw(number)) == _names(drawn), "equal curricula draw the same"
        for task in drawn:
            for curriculum in (one, two):
                curriculum.observe(_outcome(task, solved=TASKS.index(task) % 3))
                curriculum.observe(_outcome(task, solved=0, fault="the sandbox broke"))
    given = one.state()
    text = json.dumps(given)
    state = json.loads(text)
    assert state == given, "a state is the same once JSON has held it"
    assert json.loads(json.dumps(one.state())) == state, "asking for a state changes nothing"
    expected = _names(_onward(one))
    assert json.dumps(given) == text, "what happens later does not change a state that was given"
    restored = make(TASKS)
    restored.draw(2)
    restored.observe(_outcome(TASKS[0], solved=2))
    for _ in range(2):
        restored.restore(state)
        assert json.loads(json.dumps(restored.state())) == state, "a restored curriculum has the state that it was given"
        assert _names(_onward(restored)) == expected, "a restored curriculum draws what the first one draws"
    assert json.dumps(state) == text, "restoring does not change a state"


def _onward(curriculum: Curriculum) -> list[Task]:
    """What it draws next, with outcomes in between."""
    drawn: list[Task] = []
    for number in (4, 1, 9):
        drawn += curriculum.draw(number)
        curriculum.observe(_outcome(drawn[-1], solved=number % 3))
    return drawn


def _names(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


def _outcome(task: Task, solved: int, fault: str | None = None) -> Group:
    """Two attempts, so many of them solved, or both broken."""
    rollouts = []
    for number in range(2):
        outcome = TestOutcome("t::a", "fail_to_pass", "passed" if number < solved else "failed")
        trajectory = Trajectory(f"{task.id}/{number}", task.id, (), "submitted", "")
        rollouts.append(
            Rollout(task, trajectory, Verdict(task.id, "", ("ran",), (outcome,), fault=fault), Reward(float(number < solved), {}))
        )
    return Group(tuple(rollouts))
