"""What every source of tasks must hold, as one function that its author runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from patchgrad.contracts import TaskSource
from patchgrad.values import Task

Split = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "held_out")


def check_task_source(source: TaskSource, count: int = 3) -> None:
    """Raises `AssertionError` for the first rule that a task source breaks, asked for `count` tasks of each split.

    Both splits have at least one task; ids are of one task each, and no task is in both splits; every task says how it is judged, by at
    least one test that fails before its repair; and the same arguments give the same tasks.
    """
    splits: dict[Split, Sequence[Task]] = {}
    for split in SPLITS:
        found = splits[split] = source(split, count, 0)
        assert found, f"the split {split} has no task"
        assert all(isinstance(task, Task) for task in found), f"the split {split} has something that is no Task"
        assert len({task.id for task in found}) == len(found), f"two tasks of the split {split} have one id"
        assert all(task.checks.fail_to_pass for task in found), f"a task of the split {split} has no test that its repair makes pass"
        again = source(split, count, 0)
        assert [task.digest() for task in again] == [task.digest() for task in found], "the same arguments give the same tasks"
    both = {task.id for task in splits["train"]} & {task.id for task in splits["held_out"]}
    assert not both, f"{sorted(both)} are to train on and held out"
