"""A curriculum of the user's in the stages of a run: it chooses all tasks itself, and what is drawn and observed passes through here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from patchgrad.contracts import Curriculum
from patchgrad.errors import ComponentError
from patchgrad.functions import calling, named, wrong
from patchgrad.learning.curricula.outcomes import Outcomes
from patchgrad.values import Group, Task

KIND = "curriculum"


class Staged:
    """Draws what `curriculum` draws, counts what came of it for `plateaued`, and leaves nothing out at a stage's beginning.

    Raises `ComponentError` where it fails, draws something else than so many of the `tasks` that it was made with, or has a state that JSON
    does not hold.
    """

    def __init__(self, curriculum: Curriculum, tasks: Sequence[Task]) -> None:
        self._curriculum, self._tasks = curriculum, {task.id: task for task in tasks}
        self._outcomes = Outcomes()

    def draw(self, n: int) -> list[Task]:
        """So many tasks, checked."""
        wanted = f"a list of {n} of its tasks"
        with calling(KIND, self._curriculum, f"a draw of {n}"):
            drawn = self._curriculum.draw(n)
        if not isinstance(drawn, list | tuple) or not all(isinstance(task, Task) for task in drawn):
            raise wrong(KIND, self._curriculum, drawn, wanted, f"a draw of {n}")
        strangers = [task.id for task in drawn if task.id not in self._tasks]
        if len(drawn) != n or strangers:
            told = f"{strangers[0]}, which is none of its tasks" if strangers else f"{len(drawn)} tasks"
            raise ComponentError(f"The curriculum {named(self._curriculum)} drew {told}, and {wanted} was asked for.")
        self._outcomes.draw([task.id for task in drawn])
        return list(drawn)

    def observe(self, group: Group) -> None:
        """Passes the outcomes on."""
        with calling(KIND, self._curriculum, f"the attempts at {group.task.id}"):
            self._curriculum.observe(group)
        whole = group.whole
        self._outcomes.observe(group.task.id, sum(rollout.solved for rollout in whole) / len(whole) if whole else None)

    def begin_stage(self, refresh: bool, most: int) -> tuple[Staged, str]:
        """Itself: which tasks come is for the curriculum to say."""
        self._outcomes.begin_stage()
        asked = refresh or most > 0
        name = named(self._curriculum)
        return self, f"the curriculum {name} chooses all tasks itself: start.refresh_before and start.pool are not used" if asked else ""

    def plateaued(self, window: int) -> bool:
        """Did the last so many draws of this stage bring no better outcomes than those before?"""
        return self._outcomes.plateaued(window)

    def state(self) -> dict[str, Any]:
        """The curriculum's own state, and the outcomes by draw."""
        with calling(KIND, self._curriculum, "its state"):
            own = self._curriculum.state()
        try:
            json.dumps(own)
        except (TypeError, ValueError) as error:
            raise ComponentError(
                f"The curriculum {named(self._curriculum)} has a state that JSON does not hold ({error}): a run that is interrupted goes "
                "on from it, so it is made of dicts with text as keys, lists, numbers and text."
            ) from error
        return {"own": own, **self._outcomes.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state()`."""
        with calling(KIND, self._curriculum, "the state that it is to go on from"):
            self._curriculum.restore(state["own"])
        self._outcomes.restore(state)
