"""What attempts are made with, without torch: the agent, sandboxes, grader, judges, reward."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import Bash, FunctionTool, View, toolset
from patchgrad.contracts import Agent, Executor, Journal, Judge, Program, RewardFunction, Sandboxes, Tokenizer, Tool
from patchgrad.errors import ConfigError
from patchgrad.grading import Grader
from patchgrad.grading.judges import FunctionJudge, PatchSize
from patchgrad.grading.rewards import FunctionReward, Resolved
from patchgrad.recipes.component import Component
from patchgrad.recipes.recipe import AgentChoice, SandboxChoice
from patchgrad.rollouts.attempts import given_up, kin
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.executors.hosts.opening import opened
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.runs.components.construct import conforming, construct
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.oci import OciSandboxes
from patchgrad.values import Rollout

PROGRAMS = ("mini-swe-agent", "command")
"""Scaffolds that are programs of others."""


def agent(choice: AgentChoice, registry: Registry = BY_NAME, *, demonstration: bool = False) -> Agent | Program:
    """The recipe's scaffold over the paper's tools and those of the recipe, which take the place of others of the same name."""
    view = View(lines=choice.window, limit=choice.longest, brief=choice.prompts == "brief")
    own = tools(choice, registry)
    all_tools = {**toolset(view), **own}
    if choice.scaffold.name == "react":
        given = {"tools": all_tools, "prompts": choice.prompts, "demonstration": demonstration, "repeats": choice.repeats > 0}
        made: Agent = construct("agent.scaffold", ReactAgent, choice.scaffold.options, given)
        return made
    if choice.scaffold.name in PROGRAMS:
        if own or demonstration:
            reach = f"agent.tools do not reach {choice.scaffold.name}"
            raise ConfigError(f"{'rft.demonstration is a prompt of the scaffold react' if demonstration else reach}: leave it out.")
        return _program(choice, view)
    if demonstration:
        raise ConfigError(f"rft.demonstration is a prompt of the scaffold react, and the agent is {choice.scaffold.name}: set it to false.")
    found = registry.find("scaffolds", choice.scaffold, "agent.scaffold")
    if own and not callable(found):
        raise ConfigError(f"The agent {choice.scaffold.name} is made already, so agent.tools do not reach it: hand them to the agent.")
    facts = {"tools": all_tools, "view": view, "prompts": choice.prompts}
    built = registry.make("scaffolds", choice.scaffold, "agent.scaffold", facts)
    owned: Agent | Program = conforming("agent.scaffold", built, Program if isinstance(built, Program) else Agent)
    return owned


def _program(choice: AgentChoice, view: View) -> Program:
    from patchgrad.agents.gateway import CommandAgent, MiniSweAgent  # with a server, which other agents do without

    if choice.scaffold.name == "command":
        command: Program = construct("agent.scaffold", CommandAgent, choice.scaffold.options, {})
        return command
    given = {"tools": {"bash": Bash(view)}, "prompts": choice.prompts}
    mini: Program = construct("agent.scaffold", MiniSweAgent, choice.scaffold.options, given)
    return mini


def tools(choice: AgentChoice, registry: Registry = BY_NAME) -> dict[str, Tool]:
    """The recipe's own tools by name; a plain function becomes one (`agents.tools.FunctionTool`)."""
    found = [_tool(part, f"agent.tools.{i}", choice.longest, registry) for i, part in enumerate(choice.tools)]
    return {tool.name: tool for tool in found}


def _tool(part: Component, key: str, limit: int, registry: Registry) -> Tool:
    made = registry.function("tools", part, key)
    if inspect.isroutine(made) or not {"name", "usage"} <= set(dir(made)):
        return FunctionTool(made, limit)
    tool: Tool = conforming(key, made, Tool)
    return tool


def sandboxes(choice: SandboxChoice, registry: Registry = BY_NAME) -> Sandboxes:
    """One cell for each live attempt, half as many for grading; `ConfigError` where the host does not enforce what is required."""
    cells = choice.concurrency + choice.concurrency // 2
    boxes: Sandboxes
    match choice.backend.name:
        case "oci":
            boxes = OciSandboxes(choice.image, cells, choice.socket, folders=choice.folders)
        case "landlock":
            boxes = LandlockSandboxes(cells, folders=choice.folders)
        case "bwrap":
            boxes = BwrapSandboxes(cells, warm=True, folders=choice.folders)
        case _:
            facts = {"cells": cells, "image": choice.image, "socket": choice.socket, "folders": choice.folders}
            asked = {"folders": choice.folders} if choice.folders else {}  # a backend that knows nothing of them says so
            part = replace(choice.backend, options={**asked, **choice.backend.options})
            boxes = conforming("sandbox.backend", registry.make("sandboxes", part, "sandbox.backend", facts), Sandboxes)
    told = boxes.probe()
    if lacking := told.missing(choice.requires):
        raise ConfigError(
            f"the recipe requires {', '.join(lacking)} of its sandboxes, which {told.name} does not enforce on this host; "
            "see patchgrad check, or name what you can do without in sandbox.requires"
        )
    return boxes


def harness(
    scaffold: AgentChoice,
    choice: SandboxChoice,
    grader: Grader,
    journal: Journal,
    seen: Callable[[Rollout], None],
    registry: Registry = BY_NAME,
    judges: tuple[Judge, ...] = (),
) -> Harness:
    """What attempts are made with, in the sandboxes that they are graded in. Tool calls are remembered where the choice says so.

    They are made in this process.
    """
    cache = ToolCache(timeouts=grader.sandboxes.probe().work) if choice.cache else None
    acting = agent(scaffold, registry)
    if scaffold.scaffold.name == "command" and choice.backend.name == "landlock":
        raise ConfigError("sandbox.backend: landlock has no loopback, where a program in the sandbox asks for answers: take bwrap or oci.")
    executor = LocalExecutor(choice.concurrency)
    return Harness(acting, grader.sandboxes, grader.grade, journal, judges, cache, executor=executor, seen=seen)


def spread(cluster: str, concurrency: int, code: Mapping[str, bytes]) -> Executor:
    """An executor over the hosts of a cluster, each of which has sandboxes, a cache, a grader and a tokenizer of its own.

    `code` are files of the user's that hosts import parts from, by their names below a folder.
    """
    hosts = opened(cluster, concurrency)
    from patchgrad.rollouts.executors.hosts.executor import HostsExecutor  # with what only clusters need

    kept = (Sandboxes, Tokenizer, ToolCache, Grader)
    return HostsExecutor(hosts, concurrency, given_up=given_up, kin=kin, kept=kept, code=code)


JUDGES: Mapping[str, Callable[..., Judge]] = {"patch-size": PatchSize}


def judges(chosen: Sequence[Component], registry: Registry = BY_NAME) -> tuple[Judge, ...]:
    """The judges that are named, each under the checks of `FunctionJudge` where it is the user's."""
    return tuple(_judge(part, f"judges.{i}", registry) for i, part in enumerate(chosen))


def _judge(part: Component, key: str, registry: Registry) -> Judge:
    if part.name in JUDGES:
        made: Judge = construct(key, JUDGES[part.name], part.options, {})
        return made
    return FunctionJudge(registry.function("judges", part, key))


def reward(part: Component, registry: Registry = BY_NAME) -> RewardFunction:
    """What an attempt is worth before its length is priced."""
    if part.name == "tests":
        made: RewardFunction = construct("reward", Resolved, part.options, {})
        return made
    return FunctionReward(registry.function("rewards", part, "reward"))
