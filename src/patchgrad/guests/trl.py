"""Our tasks as environments of TRL's: `GRPOTrainer(..., environment_factory={"patchgrad": repairs})` (TRL 1.16).

    repairs = Repairs(of_set("sets/mine"), count=100)
    trainer = GRPOTrainer(
        model="Qwen/Qwen3-0.6B",
        args=GRPOConfig(max_completion_length=4096),
        train_dataset=Dataset.from_list(repairs.rows()),
        environment_factory={repairs.name: repairs},
    )

TRL asks for as many environments as a batch has rollouts, uses each again, and calls their methods one after the other: a method that is
public is a tool of the model's. A rollout that infrastructure broke has no reward, which TRL leaves out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import TaskSource
from patchgrad.errors import ConfigError
from patchgrad.guests.desk import Desk, Visit, reward_of
from patchgrad.guests.sources import Split, taken
from patchgrad.guests.tools import PROMPT, SUBMITTED, RepairTools
from patchgrad.recipes.recipe import SandboxChoice
from patchgrad.values import Task

USUAL = SandboxChoice()


class Repairs:
    """So many tasks of a source, and the factory of the environments in which a model works on them.

    `sandbox` says in which sandboxes, and how many at once; `reward` is a function of `(task, trajectory, verdict)`, without which the
    hidden tests decide. The trajectory that it sees has the submission and how the attempt ended, and no turns: these are TRL's.
    """

    def __init__(
        self,
        source: TaskSource | Callable[..., Sequence[Task]],
        *,
        split: Split = "train",
        count: int = 100,
        seed: int = 0,
        reward: Callable[..., object] | None = None,
        sandbox: SandboxChoice = USUAL,
        view: View | None = None,
    ) -> None:
        self.name = "patchgrad"
        self.tasks = taken(source, split, count, seed)
        self.reward, self.tools = reward_of(reward), toolset(view)
        self.desk = Desk(sandbox)
        self._made, self._lock = 0, threading.Lock()

    def rows(self) -> list[dict[str, Any]]:
        """A row a task: `prompt`, as messages; the name of the `environment`; and the id of the `task`, which `reset` is given."""
        said = {name: PROMPT.format(instruction=task.instruction.strip()) for name, task in self.tasks.items()}
        return [{"prompt": [{"role": "user", "content": words}], "environment": self.name, "task": name} for name, words in said.items()]

    def __call__(self) -> RepairEnvironment:
        """Another environment. `ConfigError` where there are fewer sandboxes than rollouts in a batch, which would wait for each other."""
        with self._lock:
            if self._made == self.desk.choice.concurrency:
                more = "hand over sandbox=SandboxChoice(concurrency=...) of as many as a batch has rollouts"
                raise ConfigError(f"TRL asks for more than {self._made} environments at once, and there are no more sandboxes: {more}.")
            self._made += 1
        return RepairEnvironment(self)

    def close(self) -> None:
        """Ends all sandboxes; the end of the program does so too."""
        self.desk.close()


class RepairEnvironment(RepairTools):
    """One rollout after another, each at a task in a sandbox of its own. The public methods are what the model calls."""

    def __init__(self, repairs: Repairs) -> None:
        self._repairs = repairs
        self._visit: Visit | None = None

    def reset(self, task: str = "", **row: Any) -> str | None:
        """Open a sandbox for the task of a row; what the row has besides is not asked for. The prompt says all, so nothing is added."""
        if task not in self._repairs.tasks:
            raise ConfigError(f"The row has the task {task!r}, which is none of these environments': make the dataset of repairs.rows().")
        desk = self._repairs.desk
        if self._visit is not None:
            desk.wait(self._visit.close())
        self._visit = Visit(desk, self._repairs.tasks[task], self._repairs.tools)
        desk.wait(self._visit.begin())
        return None

    def get_reward(self) -> float | None:
        """What the hidden tests say of what was submitted; nothing where infrastructure broke, which is no judgement of the model."""
        visit = self._opened()
        found = self._repairs.desk.wait(visit.rewarded(self._repairs.reward))
        return None if found is None else found.value

    def _call(self, tool: str, arguments: str) -> str:
        return self._repairs.desk.wait(self._opened().call(tool, arguments)).content

    def _submit(self) -> str:
        desk, visit = self._repairs.desk, self._opened()
        desk.wait(visit.end("submitted"))
        desk.begin(desk.grader.grade(visit.task, visit.submission or ""))  # while other rollouts go on; `get_reward` finds it done
        return SUBMITTED

    def _opened(self) -> Visit:
        if self._visit is None:
            raise ConfigError("The environment has no task yet: call reset with one.")
        return self._visit
