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

import shlex
import threading
from collections.abc import Callable, Sequence
from typing import Any

from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import TaskSource
from patchgrad.errors import ConfigError
from patchgrad.guests.desk import Desk, Visit, reward_of
from patchgrad.guests.sources import Split, taken
from patchgrad.recipes.recipe import SandboxChoice
from patchgrad.values import Task

PROMPT = """The repository in /testbed has a bug. Repair it.

{instruction}

Work with the tools, and call submit when you are done. What you have changed by then is judged by tests that you do not see."""
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


class RepairEnvironment:
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

    def shell(self, command: str) -> str:
        """Run a command in the shell of the repository. The shell keeps its folder and its variables.

        Args:
            command: The command, such as "pytest -x". It cannot ask for input.

        Returns:
            What the command printed.
        """
        return self._call("shell", command)

    def open(self, path: str, line: int = 1) -> str:
        """Show a part of a file, with the numbers of its lines.

        Args:
            path: The file, such as "shop/cart.py".
            line: A line of the part that is shown.

        Returns:
            The part of the file.
        """
        return self._call("open", f"{shlex.quote(path)} {line}")

    def search_file(self, text: str, path: str) -> str:
        """Find the lines of a file that hold a text.

        Args:
            text: The text, as it stands in the file.
            path: The file, such as "shop/cart.py".

        Returns:
            The lines with their numbers.
        """
        return self._call("search_file", f"{shlex.quote(text)} {shlex.quote(path)}")

    def create(self, path: str) -> str:
        """Make a new file of one empty line, which the tool edit can fill.

        Args:
            path: The file, which must not be there yet.

        Returns:
            The file, or why it cannot be made.
        """
        return self._call("create", shlex.quote(path))

    def edit(self, path: str, first: int, last: int, text: str) -> str:
        """Put a text in the place of some lines of a file.

        Args:
            path: The file, such as "shop/cart.py".
            first: The first line that is replaced.
            last: The last line that is replaced.
            text: The new lines. With no text the lines are deleted.

        Returns:
            The changed part of the file.
        """
        return self._call("edit", f"--file {shlex.quote(path)} {first}:{last} {shlex.quote(text)}")

    def replace(self, path: str, search: str, text: str) -> str:
        """Put a text in the place of another one, where that stands first in a file.

        Args:
            path: The file, such as "shop/cart.py".
            search: The text that is replaced, as it stands in the file.
            text: The new text.

        Returns:
            The changed part of the file.
        """
        return self._call("replace", f"--file {shlex.quote(path)} {shlex.quote(search)} {shlex.quote(text)}")

    def submit(self) -> str:
        """Hand in all changes of the repository. Nothing can be changed afterwards.

        Returns:
            That the attempt is over.
        """
        desk, visit = self._repairs.desk, self._opened()
        desk.wait(visit.end("submitted"))
        desk.begin(desk.grader.grade(visit.task, visit.submission or ""))  # while other rollouts go on; `get_reward` finds it done
        return "Submitted."

    def _call(self, tool: str, arguments: str) -> str:
        return self._repairs.desk.wait(self._opened().call(tool, arguments)).content

    def _opened(self) -> Visit:
        if self._visit is None:
            raise ConfigError("The environment has no task yet: call reset with one.")
        return self._visit
