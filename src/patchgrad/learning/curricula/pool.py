"""A pool of tasks drawn in shuffled passes, with the paper's refresh at a change of stage."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from patchgrad.errors import ConfigError
from patchgrad.learning.curricula.outcomes import Outcomes
from patchgrad.values import Group, Task


class Pool:
    """Uniform without replacement: every task comes once before any comes again.

    Three tasks `a b c`, draws of two: `[b a] [c b] [c a] ...` The state is plain data, so that a resumed run goes on with the same draw.
    """

    def __init__(self, tasks: Sequence[Task], seed: int) -> None:
        if not tasks:
            raise ConfigError("the task pool is empty: raise the number of tasks, or loosen the refresh")
        self._tasks = {task.id: task for task in tasks}
        self._seed = seed
        self._passes = 0
        self._queue: list[str] = []
        self._solved: dict[str, int] = {}
        self._attempts: dict[str, int] = {}
        self._outcomes = Outcomes()

    def __len__(self) -> int:
        return len(self._tasks)

    def draw(self, n: int) -> list[Task]:
        drawn: list[Task] = []
        while len(drawn) < n:
            if not self._queue:
                order = sorted(self._tasks)
                random.Random(f"pool {self._seed} {self._passes}").shuffle(order)
                self._queue, self._passes = order, self._passes + 1
            drawn.append(self._tasks[self._queue.pop()])
        self._outcomes.draw([task.id for task in drawn])
        return drawn

    def observe(self, group: Group) -> None:
        """Count a group's outcomes; what infrastructure broke is none, and what went on after another attempt's turns is not the task's."""
        task, valid = group.task.id, group.whole
        solved = sum(rollout.solved for rollout in valid)
        self._outcomes.observe(task, solved / len(valid) if valid else None)
        if valid:
            self._solved[task] = self._solved.get(task, 0) + solved
            self._attempts[task] = self._attempts.get(task, 0) + len(valid)

    def begin_stage(self, refresh: bool, most: int) -> tuple[Pool, str]:
        """The pool that a stage draws from: refreshed where that is asked for, then `most` of its tasks where that is not 0."""
        pool, told = self, ""
        if refresh:
            stay, pool = len(self.kept()), self.refreshed()
            which = "those solved sometimes but not mostly" if stay else "as none was solved sometimes but not mostly"
            told = f"refresh: {len(pool)} of {len(self)} tasks stay, {which}"
        pool = pool.part(most) if most else pool
        pool.begin()
        return pool, told

    def begin(self) -> None:
        """A new stage: what was drawn before it says nothing of whether it rises."""
        self._outcomes.begin_stage()

    def plateaued(self, window: int) -> bool:
        """Did the last so many draws of this stage bring no better outcomes than those before (`plateau.plateaued`)?"""
        return self._outcomes.plateaued(window)

    def refreshed(self, solved_from: float = 2 / 3) -> Pool:
        """The pool of the next stage: tasks solved in at least `solved_from` of all attempts so far, or never, leave; if that is all, none.

        Tasks that were not tried yet stay, and what is known of each does. arXiv 2508.03501, section 4.3 (the paper has 7,249 -> 2,028).
        """
        return self._of(self.kept(solved_from) or list(self._tasks), self._seed + 1)

    def kept(self, solved_from: float = 2 / 3) -> list[str]:
        """The tasks that a refresh finds fit."""
        return [task for task in self._tasks if self._keeps(task, solved_from)]

    def part(self, count: int) -> Pool:
        """The pool with so many of its tasks, chosen by its seed, and what is known of them."""
        return self._of(random.Random(f"part {self._seed}").sample(sorted(self._tasks), min(count, len(self))), self._seed)

    def _of(self, tasks: Sequence[str], seed: int) -> Pool:
        """A pool of these, with what is known of them."""
        other = Pool([self._tasks[task] for task in tasks], seed)
        other._solved, other._attempts = ({task: told[task] for task in tasks if task in told} for told in (self._solved, self._attempts))
        return other

    def _keeps(self, task: str, solved_from: float) -> bool:
        attempts = self._attempts.get(task, 0)
        return attempts == 0 or 0 < self._solved[task] < solved_from * attempts

    def state(self) -> dict[str, Any]:
        return {
            "tasks": list(self._tasks),
            "seed": self._seed,
            "passes": self._passes,
            "queue": list(self._queue),
            "solved": dict(self._solved),
            "attempts": dict(self._attempts),
            **self._outcomes.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from `state()`. Raises `ConfigError` when it names tasks that this pool does not have."""
        unknown = set(state["tasks"]) - set(self._tasks)
        if unknown:
            raise ConfigError(f"the saved curriculum names {len(unknown)} tasks that this recipe does not have, first {min(unknown)}")
        self._tasks = {task: self._tasks[task] for task in state["tasks"]}
        self._seed, self._passes, self._queue = state["seed"], state["passes"], list(state["queue"])
        self._solved, self._attempts = dict(state["solved"]), dict(state["attempts"])
        self._outcomes.restore({"iterations": [], "began": 0, **state})  # which older runs do not have
