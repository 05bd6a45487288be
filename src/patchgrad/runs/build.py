"""What a recipe puts around a policy, whichever it is: the agent, the sandboxes, and what is said of an attempt."""

from __future__ import annotations

from dataclasses import replace

from patchgrad.agents import ReactAgent
from patchgrad.agents.tools import View, toolset
from patchgrad.contracts import Sandboxes
from patchgrad.errors import ConfigError
from patchgrad.grading import Grader
from patchgrad.recipes.recipe import AgentChoice, SandboxChoice
from patchgrad.rollouts.executors import LocalExecutor
from patchgrad.rollouts.harness import Harness
from patchgrad.rollouts.tool_cache import Answers
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.sandboxes.oci import OciSandboxes
from patchgrad.store import Run
from patchgrad.values import Call, Rollout


def an_agent(choice: AgentChoice) -> ReactAgent:
    """The recipe's prompts over the paper's tools."""
    view = View(lines=choice.window, limit=choice.longest, brief=choice.prompts == "brief")
    return ReactAgent(toolset(view), prompts=choice.prompts)


def sandboxes(choice: SandboxChoice) -> Sandboxes:
    """One cell for each live episode, half as many for grading; `ConfigError` where the host does not enforce what is required."""
    cells = choice.concurrency + choice.concurrency // 2
    boxes: Sandboxes
    match choice.backend:
        case "oci":
            boxes = OciSandboxes(choice.image, cells, choice.socket)
        case "landlock":
            boxes = LandlockSandboxes(cells)
        case "bwrap":
            boxes = BwrapSandboxes(cells, warm=True)
    told = boxes.probe()
    if lacking := told.missing(choice.requires):
        raise ConfigError(
            f"the recipe requires {', '.join(lacking)} of its sandboxes, which {told.name} does not enforce on this host; "
            "see patchgrad check, or name what you can do without in sandbox.requires"
        )
    return boxes


def build_harness(agent: AgentChoice, choice: SandboxChoice, boxes: Sandboxes) -> Harness:
    """A harness in which nothing is written down: for evaluations."""
    return once(Harness(an_agent(agent), boxes, Grader(boxes).grade, LocalExecutor(choice.concurrency)), choice)


def once(harness: Harness, choice: SandboxChoice) -> Harness:
    """The same harness; where the choice says so, one in which no call is run and no submission judged that was before."""
    if not choice.cache:
        return harness
    answers = Answers(timeouts=harness.sandboxes.probe().work)
    return replace(harness, answers=answers, grade=answers.of(harness.grade))


def journalled(harness: Harness, run: Run) -> Harness:
    """The same harness with a run's journal: every turn, state and ending is written as it happens, and what is known is not done again."""
    return replace(
        harness,
        on_turn=run.write_turn,
        on_state=run.states.put,
        on_ending=run.write_ending,
        recall=run.recall,
        state=run.states.get,
        journalled=run.journal.holds,
    )


def sentence(rollout: Rollout) -> str:
    """One line about an attempt: `clamp in shop/core.py: replace "value < low" ... -> solved in 4 turns`."""
    edits = [t.call.arguments for t in rollout.trajectory.turns if isinstance(t.call, Call) and t.call.tool == "replace"]
    last = f"replace {edits[-1]}" if edits else "no edit"
    ending = "solved" if rollout.solved else rollout.trajectory.stop
    return f"{rollout.task.id}: {last[:60]} -> {ending} in {len(rollout.trajectory.turns)} turns"
