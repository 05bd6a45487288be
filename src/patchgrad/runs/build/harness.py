"""What attempts are made with, without torch: the agent, sandboxes, grader, reward."""

from __future__ import annotations

from collections.abc import Callable

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import Journal, RewardFunction, Sandboxes
from patchgrad.errors import ConfigError
from patchgrad.grading import Grader
from patchgrad.grading.rewards import Resolved
from patchgrad.recipes.component import BUILT_IN
from patchgrad.recipes.recipe import AgentChoice, Recipe, SandboxChoice
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.tool_cache import ToolCache
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.oci import OciSandboxes
from patchgrad.values import Rollout


def agent(choice: AgentChoice, *, demonstration: bool = False) -> ReactAgent:
    """The recipe's prompts over the paper's tools."""
    view = View(lines=choice.window, limit=choice.longest, brief=choice.prompts == "brief")
    return ReactAgent(toolset(view), prompts=choice.prompts, demonstration=demonstration)


def sandboxes(choice: SandboxChoice) -> Sandboxes:
    """One cell for each live attempt, half as many for grading; `ConfigError` where the host does not enforce what is required."""
    cells = choice.concurrency + choice.concurrency // 2
    boxes: Sandboxes
    match choice.backend.name:
        case "oci":
            boxes = OciSandboxes(choice.image, cells, choice.socket)
        case "landlock":
            boxes = LandlockSandboxes(cells)
        case "bwrap":
            boxes = BwrapSandboxes(cells, warm=True)
        case name:
            raise ConfigError(f"sandbox.backend is {name}, which nothing here opens; there are {', '.join(BUILT_IN['sandboxes'])}")
    told = boxes.probe()
    if lacking := told.missing(choice.requires):
        raise ConfigError(
            f"the recipe requires {', '.join(lacking)} of its sandboxes, which {told.name} does not enforce on this host; "
            "see patchgrad check, or name what you can do without in sandbox.requires"
        )
    return boxes


def harness(scaffold: AgentChoice, choice: SandboxChoice, boxes: Sandboxes, journal: Journal, seen: Callable[[Rollout], None]) -> Harness:
    """What attempts are made with. Tool calls are remembered where the choice says so."""
    cache = ToolCache(timeouts=boxes.probe().work) if choice.cache else None
    executor = LocalExecutor(choice.concurrency)
    return Harness(agent(scaffold), boxes, Grader(boxes).grade, executor, journal, cache=cache, seen=seen)


def reward(recipe: Recipe) -> RewardFunction:
    """What an attempt is worth before its length is priced."""
    return Resolved()
