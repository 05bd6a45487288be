"""The pool, and a curriculum of the user's, in the stages of a run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from patchgrad.learning.curricula import Pool, Staged
from patchgrad.testing import check_staged_curriculum
from patchgrad.values import Group, Task


class Unsolved:
    """Those that were solved least often first."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks, self.solved = list(tasks), {task.id: 0 for task in tasks}

    def draw(self, n: int) -> list[Task]:
        found = sorted(self.tasks, key=lambda task: (self.solved[task.id], task.id))
        return [found[i % len(found)] for i in range(n)]

    def observe(self, group: Group) -> None:
        self.solved[group.task.id] += sum(rollout.solved for rollout in group.rollouts)

    def state(self) -> dict[str, Any]:
        return {"solved": dict(self.solved)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.solved = dict(state["solved"])


def test_the_pool_is_one() -> None:
    check_staged_curriculum(lambda tasks: Pool(tasks, seed=random.Random(0).randrange(9)))


def test_a_curriculum_of_the_users_becomes_one() -> None:
    check_staged_curriculum(lambda tasks: Staged(Unsolved(tasks), tasks))
