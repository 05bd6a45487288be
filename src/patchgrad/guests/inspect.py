"""Our tasks as a task of inspect_ai's: samples, a sandbox of ours for each, and a scorer by the hidden tests (inspect_ai 0.3.285).

    @task
    def mine():
        return repairs(of_set("sets/mine"), count=50)

`inspect eval mine.py --model openai/gpt-5` runs it. The solver is the agent of inspect_ai with a shell, or another one: whatever works in
a sandbox of inspect_ai's works in this one.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from inspect_ai import Task as InspectTask
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState
from inspect_ai.tool import bash
from inspect_ai.util import ExecResult, SandboxEnvironment, SandboxUserUnsupportedError, sandbox, sandboxenv

from patchgrad.contracts import Sandbox, TaskSource
from patchgrad.errors import ConfigError, SandboxFault, SandboxLost
from patchgrad.guests.desk import Desk
from patchgrad.guests.sources import Split, taken
from patchgrad.recipes.recipe import SandboxChoice
from patchgrad.rollouts.repository import commit, difference
from patchgrad.values import Task, Verdict, digest

T = TypeVar("T")
PROMPT = """The repository in /testbed has a bug. Repair it.

{instruction}

Tests that you do not see judge what the files in /testbed are when you are done."""
AGENT = "You are a software engineer. Work with the tool bash, and call submit when the repository is repaired."
KNOWN: dict[str, tuple[Desk, Mapping[str, Task]]] = {}
"""Tasks and their sandboxes by the name of their dataset, which each sample tells: inspect_ai opens sandboxes by what a sample says."""
_WITHIN = 'cd -- "$1" && shift && exec "$@"'
USUAL = SandboxChoice()


def repairs(
    source: TaskSource | Callable[..., Sequence[Task]],
    *,
    split: Split = "held_out",
    count: int = 100,
    seed: int = 0,
    solver: Any = None,
    sandboxes: SandboxChoice = USUAL,
) -> InspectTask:
    """A task of inspect_ai's with so many tasks of a source as samples. Options of `Task` such as `epochs` are given by its command."""
    tasks = taken(source, split, count, seed)
    name = f"patchgrad-{digest(*(task.digest() for task in tasks.values()))[:12]}"
    before = KNOWN.pop(name, None)
    if before is not None:
        before[0].close()
    KNOWN[name] = (Desk(sandboxes), tasks)
    samples = [
        Sample(id=id, input=PROMPT.format(instruction=task.instruction.strip()), metadata={"tasks": name, "task": id})
        for id, task in tasks.items()
    ]
    return InspectTask(
        dataset=MemoryDataset(samples, name=name),
        solver=solver or react(prompt=AGENT, tools=[bash()]),
        scorer=hidden_tests(),
        sandbox="patchgrad",
    )


@scorer(metrics=[accuracy(), stderr()])
def hidden_tests() -> Any:
    """Correct where the hidden tests pass on what has become of the repository; a sample that infrastructure broke is an error of it."""

    async def score(state: TaskState, target: Target) -> Score:
        patch, verdict = await sandbox().as_type(RepairSandbox).graded()
        if verdict.fault:
            raise SandboxFault(verdict.fault)
        failed = [test.id for test in verdict.tests if not test.satisfied]
        said = f"failed: {', '.join(failed)}" if failed else "all hold" if verdict.tests else "none ran"
        return Score(value=CORRECT if verdict.resolved else INCORRECT, answer=patch, explanation="; ".join([said, *verdict.tamper]))

    return score


@sandboxenv(name="patchgrad")
class RepairSandbox(SandboxEnvironment):
    """A sandbox of ours with the repository of a sample. What a command prints on both of its outputs is told as one, as a shell has it."""

    def __init__(self, desk: Desk, task: Task, opened: Sandbox, base: str) -> None:
        super().__init__()
        self._desk, self._task, self._box, self._commit = desk, task, opened, base
        self._lost = False

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: Mapping[str, str]) -> dict[str, SandboxEnvironment]:
        """Opens the sandbox of a sample."""
        desk, tasks = KNOWN.get(metadata.get("tasks", ""), (None, {}))
        if desk is None:
            raise ConfigError("The sandbox patchgrad is for samples of patchgrad.guests.inspect.repairs: name another one for these.")
        task = tasks[metadata["task"]]

        async def opened() -> tuple[Sandbox, str]:
            box = await desk.sandboxes.open(task)
            return box, await commit(box)

        return {"default": cls(desk, task, *await _there(desk, opened()))}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: Mapping[str, Any], interrupted: bool) -> None:
        """Closes it."""
        for one in environments.values():
            with suppress(SandboxFault):
                await _there(one._desk, one._box.close())

    @classmethod
    def default_concurrency(cls) -> int | None:
        """As many at once as the choice of sandboxes says."""
        return min((desk.choice.concurrency for desk, _ in KNOWN.values()), default=None)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        **_: Any,
    ) -> Any:
        """A command in a process of its own; without a `timeout` it has the seconds of the task."""
        if user is not None:
            raise SandboxUserUnsupportedError("A sandbox of patchgrad has one user: leave the user out.")
        argv = ["bash", "-c", _WITHIN, "within", cwd, *cmd] if cwd else cmd
        given = input.encode() if isinstance(input, str) else input or b""
        try:
            done = await _there(self._desk, self._box.exec(argv, timeout, env, given))
        except SandboxLost as lost:
            self._lost = True
            return ExecResult(False, 137, "", str(lost))
        if done.state == "timeout":
            raise TimeoutError(f"The command ran out of time after {done.seconds:.0f} seconds.")
        code = 137 if done.exit_code is None else done.exit_code
        return ExecResult(done.state == "ok" and code == 0, code, done.output, "")

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Writes a file, and makes its folder."""
        content = contents.encode() if isinstance(contents, str) else contents
        if folder := posixpath.dirname(file):
            await _there(self._desk, self._box.exec(["mkdir", "-p", "--", folder]))
        await _there(self._desk, self._box.write(file, content))

    async def read_file(self, file: str, text: bool = True) -> Any:
        """What a file holds."""
        content = await _there(self._desk, self._box.read(file))
        return content.decode() if text else content

    async def graded(self) -> tuple[str, Verdict]:
        """What the sample has made of the repository, as a patch, and what the hidden tests say of that."""

        async def judged() -> tuple[str, Verdict]:
            patch = "" if self._lost else await difference(self._box, self._commit, self._task.limits.test_seconds)
            return patch, await self._desk.grader.grade(self._task, patch)

        return await _there(self._desk, judged())


async def _there(desk: Desk, work: Coroutine[Any, Any, T]) -> T:
    """What comes of it on the desk's loop, while this one goes on."""
    return await asyncio.wrap_future(desk.begin(work))
