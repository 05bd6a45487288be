"""What every curriculum of a run's stages must hold, as one function that its author runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from patchgrad.contracts import StagedCurriculum
from patchgrad.testing.curriculum import TASKS, check_curriculum
from patchgrad.values import Task


def check_staged_curriculum(make: Callable[[Sequence[Task]], StagedCurriculum]) -> None:
    """Raises `AssertionError` for the first rule that a staged curriculum breaks; `make(tasks)` gives a fresh one, equal to the last.

    It is a curriculum (`check_curriculum`). A stage begins with a curriculum that draws from the given tasks alone, as many as are asked
    for, whatever is to be left out, and with a sentence where something was. Nothing has plateaued before anything was observed.
    """
    check_curriculum(make)
    for refresh, most in ((False, 0), (True, 0), (False, 2), (True, 2)):
        begun, told = make(TASKS).begin_stage(refresh, most)
        assert isinstance(told, str), "a stage begins with a sentence, or an empty one"
        drawn = begun.draw(2 * len(TASKS))
        assert len(drawn) == 2 * len(TASKS), f"a draw of {2 * len(TASKS)} tasks gave {len(drawn)}"
        assert all(task in TASKS for task in drawn), "only given tasks are drawn"
        assert not begun.plateaued(1), "nothing has plateaued before anything was observed"
