"""Our tasks as a taskset of verifiers', with a harness that works in sandboxes of ours (verifiers 0.4.0).

    from patchgrad.guests.verifiers import RepairEnv, RepairHarness, RepairTaskset

    __all__ = ["RepairEnv", "RepairHarness", "RepairTaskset"]

A module of these lines, `mine.py`, is an environment: `PYTHONPATH=. vf-eval mine --env.taskset.set sets/mine`. The loop of the agent runs
in the process of the evaluation, and each of its commands in our sandbox: what verifiers calls a runtime stays empty. A rollout that
infrastructure broke has an error of verifiers' and no reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import TaskSource
from patchgrad.errors import ConfigError, MissingDependency
from patchgrad.guests.desk import Desk, Visit, reward_of
from patchgrad.guests.sources import Generated, Split, of_set, taken
from patchgrad.guests.tools import PROMPT, SUBMITTED, schemas, spelt
from patchgrad.recipes.recipe import SandboxChoice
from patchgrad.values import Malformed, Task, digest

try:
    import verifiers.v1 as vf
    from openai import APIStatusError, AsyncOpenAI
    from verifiers.v1.envs.single_agent import SingleAgentEnv, SingleAgentEnvConfig
    from verifiers.v1.harnesses.utils.compaction import is_context_overflow
except ModuleNotFoundError as error:
    raise MissingDependency("verifiers is not installed, and tasks in it need it: pip install verifiers==0.4.0.") from error

T = TypeVar("T")
TURNS = 100
KNOWN: dict[str, RepairTaskset] = {}
"""Tasksets by what their rows say: a server of verifiers' makes a task anew of its row, in a process that has loaded no tasks."""


class RepairTasksetConfig(vf.TasksetConfig):
    """`set` is a folder that `patchgrad tasks` wrote, from which so many tasks of a `split` are taken; without it they are generated."""

    set: str = ""
    split: Split = "held_out"
    count: int = 100
    seed: int = 0


class RepairData(vf.TaskData):
    """What verifiers keeps of a task: nothing of it is hidden from the agent. `taskset` is its name in `KNOWN`."""

    taskset: str


class RepairTask(vf.Task[RepairData]):
    """One of our tasks. Its sandbox is opened before the agent begins, and what the agent made of it is judged by the hidden tests."""

    @property
    def key(self) -> str:
        """The id of the task."""
        return str(self.data.id)

    async def setup(self, trace: Any) -> None:
        """Opens the sandbox of the rollout."""
        if not isinstance(trace.agent.config.harness, RepairHarnessConfig):
            name = trace.agent.config.harness.id
            raise ConfigError(f"The harness {name} works elsewhere than in the task's sandbox: leave that option out.")
        taskset = _taskset(self.data)
        visit = Visit(taskset.desk, taskset.tasks[self.data.id], taskset.tools)
        taskset.visits[trace.id] = visit
        await _there(taskset.desk, visit.begin())
        _whole(visit)

    async def finalize(self, trace: Any) -> None:
        """Takes what the rollout has made of the repository, as the patch that stands in `info` of its trace."""
        taskset = _taskset(self.data)
        visit = taskset.visits[trace.id]
        await _there(taskset.desk, visit.end("turn limit"))
        trace.info["patch"] = visit.submission or ""
        _whole(visit)

    @vf.reward
    async def hidden_tests(self, trace: Any, runtime: Any) -> float:
        """What the hidden tests say, or the taskset's own reward. A rollout that did not submit is not rewarded by the tests.

        It names a `runtime`, since a rollout is judged once and not again from its trace.
        """
        taskset = _taskset(self.data)
        visit = taskset.visits[trace.id]
        found = await _there(taskset.desk, visit.rewarded(taskset.rewarding))
        if found is None:
            raise vf.SandboxError(visit.fault)
        return found.value


class RepairTaskset(vf.Taskset[RepairTask, RepairTasksetConfig]):
    """So many tasks of a source, the sandboxes in which they are worked on, and the rollouts that go on.

    A class of the user's own may say other `sandbox`es, another `view`, another `source`, and a method `reward(task, trajectory, verdict)`.
    """

    sandbox: ClassVar[SandboxChoice] = SandboxChoice()
    view: ClassVar[View | None] = None
    reward: Callable[..., object] | None = None

    def __init__(self, config: RepairTasksetConfig) -> None:
        super().__init__(config)
        said = config.model_dump_json(include={"set", "split", "count", "seed"})
        self.name = f"{type(self).__name__}-{digest(type(self).__module__, said)[:12]}"
        self.visits: dict[str, Visit] = {}
        self.rewarding = reward_of(self.reward)
        KNOWN[self.name] = self

    def source(self) -> TaskSource | Callable[..., Any]:
        """Where the tasks are from."""
        return of_set(Path(self.config.set)) if self.config.set else Generated()

    def load(self) -> list[RepairTask]:
        """The tasks with their instructions."""
        made = [
            RepairData(id=id, name=id, taskset=self.name, prompt=PROMPT.format(instruction=task.instruction.strip()))
            for id, task in self.tasks.items()
        ]
        return [RepairTask(data, self.config.task) for data in made]

    @cached_property
    def tasks(self) -> Mapping[str, Task]:
        """Our tasks by their ids."""
        return taken(self.source(), self.config.split, self.config.count, self.config.seed)

    @cached_property
    def tools(self) -> Mapping[str, Any]:
        """What a call of the model's does in a sandbox."""
        return toolset(self.view)

    @cached_property
    def desk(self) -> Desk:
        """The sandboxes, made when the first rollout begins."""
        return Desk(self.sandbox)

    def close(self) -> None:
        """Ends all sandboxes; rollouts that begin afterwards make others."""
        if (desk := self.__dict__.pop("desk", None)) is not None:
            desk.close()


class RepairHarnessConfig(vf.HarnessConfig):
    """Nothing is chosen of it but its id, which is that of the module."""


class RepairHarness(vf.Harness[RepairHarnessConfig]):
    """Calls the model, and the tools that it asks for, until it submits or asks for none."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False  # not on this machine: in our sandbox
    NEEDS_CONTAINER = False

    async def launch(self, ctx: Any, trace: Any, runtime: Any, *given: Any) -> vf.ProgramResult:
        """One rollout. `given` is where the model is asked, the key for it, addresses of tools, and the row of the task."""
        endpoint, secret, _, data = given
        taskset = _taskset(data)
        system, prompt = self.resolve_text_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, timeout=None) as client:
            while True:
                try:
                    answer = await client.chat.completions.create(model=ctx.model, messages=messages, tools=schemas())
                except APIStatusError as refused:
                    if is_context_overflow(refused):  # a limit of the model's, at which the rollout ends
                        break
                    raise
                said = answer.choices[0].message
                messages.append(said.model_dump(exclude_none=True))
                for call in said.tool_calls or ():
                    content = await _answer(taskset, taskset.visits[trace.id], call.function)
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
                if not said.tool_calls or taskset.visits[trace.id].submission is not None:
                    break
        return vf.ProgramResult(0, "", "")

    async def cleanup(self, trace: Any, runtime: Any) -> None:
        """Closes the sandbox of a rollout, however it ended."""
        taskset = _taskset(trace.task.data)
        if (visit := taskset.visits.pop(trace.id, None)) is not None:
            await _there(taskset.desk, visit.close())


class RepairEnvConfig(SingleAgentEnvConfig):
    """One agent. Its runtime is a folder of this machine in which nothing is run, and it ends after `TURNS` turns unless told otherwise."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig(), max_turns=TURNS)


class RepairEnv(SingleAgentEnv, vf.Env[RepairEnvConfig]):
    """One agent at one task; at the end of the evaluation all sandboxes are closed."""

    async def stop(self) -> None:
        """Closes them, beside the loop of verifiers'."""
        await asyncio.to_thread(self.taskset.close)


def _taskset(data: Any) -> RepairTaskset:
    if (taskset := KNOWN.get(data.taskset)) is None:
        raise ConfigError(f"The task {data.id} is of the taskset {data.taskset}, which is not loaded here: load it with the same options.")
    return taskset


async def _answer(taskset: RepairTaskset, visit: Visit, asked: Any) -> str:
    """What a call is answered; what is wrong with it, in a sentence for the model."""
    call = spelt(asked.name, asked.arguments)
    if isinstance(call, Malformed):
        return call.message
    if call.tool == "submit":
        await _there(taskset.desk, visit.end("submitted"))
        return SUBMITTED
    observation = await _there(taskset.desk, visit.call(call.tool, call.arguments))
    _whole(visit)
    return observation.content


def _whole(visit: Visit) -> None:
    """Raises verifiers' error of a sandbox where infrastructure broke."""
    if visit.fault:
        raise vf.SandboxError(visit.fault)


async def _there(desk: Desk, work: Coroutine[Any, Any, T]) -> T:
    """What comes of it on the desk's loop, while this one goes on."""
    return await asyncio.wrap_future(desk.begin(work))
