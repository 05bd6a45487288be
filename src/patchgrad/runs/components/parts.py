"""The parts of a recipe, one by one; and a recipe with objects of a Python program in their place.

recipe, registry = with_parts(recipe, {"reward": small})      the recipe names `mine:small`, and the registry has the function
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from patchgrad.contracts import Agent, Curriculum, Sandboxes, Tool, Tracker
from patchgrad.errors import ConfigError
from patchgrad.functions import named
from patchgrad.recipes.component import BUILT_IN, Component, Kind
from patchgrad.recipes.recipe import AgentChoice, Recipe, SandboxChoice
from patchgrad.recipes.stage import Stage
from patchgrad.runs.components.registry import Registry
from patchgrad.values import Task


class Parts(TypedDict, total=False):
    """What `patchgrad.train` takes in place of what the recipe names: objects, functions or classes; or names, as in a recipe.

    `estimator` and `objective` are those of every stage. `agent`, `curriculum`, `sandboxes`, `policy`, `trainer` and `trackers` that are
    classes or functions are called with what they ask for by name (docs/guide/extend.md). `tasks` are a source, or tasks themselves.
    """

    reward: str | Callable[..., Any]
    judges: Sequence[str | Callable[..., Any]]
    agent: str | Agent | Callable[..., Agent]
    tools: Sequence[str | Tool | Callable[..., Any]]
    estimator: str | Callable[..., Any]
    objective: str | Callable[..., Any]
    curriculum: str | Curriculum | Callable[..., Curriculum]
    tasks: str | Sequence[Task] | Callable[..., Any]
    sandboxes: str | Sandboxes | Callable[..., Sandboxes]
    policy: str | Callable[..., Any]
    trainer: str | Callable[..., Any]
    trackers: Sequence[str | Tracker | Callable[..., Tracker]]


KINDS: Mapping[str, Kind] = {
    "reward": "rewards",
    "judges": "judges",
    "agent": "scaffolds",
    "tools": "tools",
    "estimator": "estimators",
    "objective": "objectives",
    "curriculum": "curricula",
    "tasks": "task_sources",
    "sandboxes": "sandboxes",
    "policy": "policies",
    "trainer": "trainers",
    "trackers": "trackers",
}
SEVERAL = ("judges", "tools", "trackers")


@dataclass(frozen=True, slots=True)
class Named:
    """A part where a recipe names it: `Named("stages.0.loss.objective", "objectives", Component("mine:cost"))`."""

    key: str
    kind: Kind
    part: Component

    @property
    def foreign(self) -> bool:
        """Is it none of those that are built in?"""
        return self.part.name not in BUILT_IN[self.kind]


def named_parts(recipe: Recipe) -> Iterator[Named]:
    """Every part that a recipe names, in its order."""
    yield Named("reward", "rewards", recipe.reward)
    yield from (Named(f"judges.{i}", "judges", part) for i, part in enumerate(recipe.judges))
    yield Named("curriculum", "curricula", recipe.curriculum)
    yield Named("trainer", "trainers", recipe.trainer)
    yield from (Named(f"trackers.{i}", "trackers", part) for i, part in enumerate(recipe.trackers))
    yield Named("tasks.source", "task_sources", recipe.tasks.source)
    yield from acting_parts(recipe.agent, recipe.sandbox)
    if recipe.policy.implementation is not None:
        yield Named("policy.implementation", "policies", recipe.policy.implementation)
    for number, stage in enumerate(recipe.stages):
        yield Named(f"stages.{number}.advantage.estimator", "estimators", stage.row.estimator)
        yield Named(f"stages.{number}.loss.objective", "objectives", stage.row.objective)


def acting_parts(agent: AgentChoice, sandbox: SandboxChoice) -> Iterator[Named]:
    """Those that attempts are made with."""
    yield Named("agent.scaffold", "scaffolds", agent.scaffold)
    yield from (Named(f"agent.tools.{i}", "tools", part) for i, part in enumerate(agent.tools))
    yield Named("sandbox.backend", "sandboxes", sandbox.backend)


def with_parts(recipe: Recipe, parts: Mapping[str, Any]) -> tuple[Recipe, Registry]:
    """The recipe with the names of these parts, and the registry that knows what stands behind them."""
    unknown = sorted(set(parts) - set(KINDS))
    if unknown:
        raise ConfigError(f"A run has no part {', '.join(unknown)}; there are {', '.join(KINDS)}.")
    given: dict[tuple[Kind, str], object] = {}
    names = {argument: _named(argument, value, given) for argument, value in parts.items() if value is not None}
    return _onto(recipe, names), Registry(given)


def _named(argument: str, value: Any, given: dict[tuple[Kind, str], object]) -> tuple[Component, ...]:
    """The names of what was given for one argument; objects are noted under them."""
    if argument in SEVERAL and (isinstance(value, str) or not isinstance(value, Sequence)):
        raise ConfigError(f"{argument} are several: write {argument}=[...].")
    found = []
    for one in value if argument in SEVERAL else (value,):
        if isinstance(one, str | Component):
            found.append(Component(one) if isinstance(one, str) else one)
            continue
        name, kind = _name(one), KINDS[argument]
        name += f"_{len(found) + 1}" if (kind, name) in given else ""
        given[kind, name] = one
        found.append(Component(name))
    return tuple(found)


def _name(part: object) -> str:
    """`mine:small` for what can be imported under this name; `__main__:small` for what this program alone has."""
    if inspect.isfunction(part) or inspect.isclass(part):
        module, name = part.__module__, part.__qualname__
        if re.fullmatch(r"[A-Za-z_][\w.]*", module) and re.fullmatch(r"[A-Za-z_][\w.]*", name):
            return f"{module}:{name}"
    word = re.sub(r"\W+", "_", named(part)).strip("_")
    return f"__main__:{word or 'part'}"


def _onto(recipe: Recipe, names: Mapping[str, tuple[Component, ...]]) -> Recipe:
    """The recipe with these names in their places."""
    one = {argument: found[0] for argument, found in names.items() if argument not in SEVERAL}
    scaffold, tools = one.get("agent", recipe.agent.scaffold), names.get("tools", recipe.agent.tools)
    return replace(
        recipe,
        reward=one.get("reward", recipe.reward),
        judges=names.get("judges", recipe.judges),
        curriculum=one.get("curriculum", recipe.curriculum),
        trainer=one.get("trainer", recipe.trainer),
        trackers=names.get("trackers", recipe.trackers),
        agent=replace(recipe.agent, scaffold=scaffold, tools=tools),
        tasks=replace(recipe.tasks, source=one.get("tasks", recipe.tasks.source)),
        sandbox=replace(recipe.sandbox, backend=one.get("sandboxes", recipe.sandbox.backend)),
        policy=replace(recipe.policy, implementation=one.get("policy", recipe.policy.implementation)),
        stages=tuple(_stage(stage, one) for stage in recipe.stages),
    )


def _stage(stage: Stage, one: Mapping[str, Component]) -> Stage:
    estimator, objective = one.get("estimator", stage.advantage.estimator), one.get("objective", stage.loss.objective)
    return replace(stage, advantage=replace(stage.advantage, estimator=estimator), loss=replace(stage.loss, objective=objective))
