"""patchgrad trains software-engineering agents with reinforcement learning on repositories with real tests.

    import patchgrad as pg

    def small(task, trajectory, verdict):
        return verdict.resolved / (1 + trajectory.submission.count("\\n") / 100)

    run = pg.train(pg.recipe("smoke"), reward=small)
    print(run.table())

Names are loaded when they are first used, so that the import takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchgrad import testing
    from patchgrad.agents import ReactAgent
    from patchgrad.agents.tools import FunctionTool, toolset
    from patchgrad.contracts import (
        Agent,
        Curriculum,
        Estimator,
        Extend,
        Finish,
        Journal,
        Judge,
        Objective,
        Policy,
        Restart,
        Result,
        RewardFunction,
        Sandbox,
        Sandboxes,
        TaskSource,
        Tokenizer,
        Tool,
        Tracker,
        TrainablePolicy,
        Trained,
        Trainer,
    )
    from patchgrad.errors import (
        ComponentError,
        ConfigError,
        PatchgradError,
        PolicyFault,
        SandboxFault,
        SandboxLost,
        StoreError,
        TaskError,
        TrainingStopped,
    )
    from patchgrad.grading.judges import FunctionJudge
    from patchgrad.grading.rewards import FunctionReward
    from patchgrad.learning.advantages import FunctionEstimator
    from patchgrad.learning.objectives.functions import FunctionObjective
    from patchgrad.recipes import Recipe
    from patchgrad.runs.opened import Run
    from patchgrad.runs.public import evaluate, plan, recipe, train
    from patchgrad.values import (
        Action,
        Call,
        Checks,
        Event,
        Group,
        Judgement,
        Malformed,
        Message,
        Observation,
        Report,
        Repository,
        Reward,
        Rollout,
        Task,
        ToolState,
        Trajectory,
        Turn,
        Verdict,
    )

__version__ = "0.1.0"

_PLACES: dict[str, tuple[str, ...]] = {
    "patchgrad.runs.public": ("evaluate", "plan", "recipe", "train"),
    "patchgrad.runs.opened": ("Run",),
    "patchgrad.recipes": ("Recipe",),
    "patchgrad.agents": ("ReactAgent",),
    "patchgrad.agents.tools": ("FunctionTool", "toolset"),
    "patchgrad.grading.judges": ("FunctionJudge",),
    "patchgrad.grading.rewards": ("FunctionReward",),
    "patchgrad.learning.advantages": ("FunctionEstimator",),
    "patchgrad.learning.objectives.functions": ("FunctionObjective",),
    "patchgrad.contracts": (
        *("Agent", "Curriculum", "Estimator", "Extend", "Finish", "Journal", "Judge", "Objective", "Policy", "Restart", "Result"),
        *("RewardFunction", "Sandbox", "Sandboxes", "TaskSource", "Tokenizer", "Tool", "Tracker", "TrainablePolicy", "Trained", "Trainer"),
    ),
    "patchgrad.errors": (
        *("ComponentError", "ConfigError", "PatchgradError", "PolicyFault", "SandboxFault", "SandboxLost", "StoreError", "TaskError"),
        "TrainingStopped",
    ),
    "patchgrad.values": (
        *("Action", "Call", "Checks", "Event", "Group", "Judgement", "Malformed", "Message", "Observation", "Report", "Repository"),
        *("Reward", "Rollout", "Task", "ToolState", "Trajectory", "Turn", "Verdict"),
    ),
}
_WHERE = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Action",
    "Agent",
    "Call",
    "Checks",
    "ComponentError",
    "ConfigError",
    "Curriculum",
    "Estimator",
    "Event",
    "Extend",
    "Finish",
    "FunctionEstimator",
    "FunctionJudge",
    "FunctionObjective",
    "FunctionReward",
    "FunctionTool",
    "Group",
    "Journal",
    "Judge",
    "Judgement",
    "Malformed",
    "Message",
    "Objective",
    "Observation",
    "PatchgradError",
    "Policy",
    "PolicyFault",
    "ReactAgent",
    "Recipe",
    "Report",
    "Repository",
    "Restart",
    "Result",
    "Reward",
    "RewardFunction",
    "Rollout",
    "Run",
    "Sandbox",
    "SandboxFault",
    "SandboxLost",
    "Sandboxes",
    "StoreError",
    "Task",
    "TaskError",
    "TaskSource",
    "Tokenizer",
    "Tool",
    "ToolState",
    "Tracker",
    "TrainablePolicy",
    "Trained",
    "Trainer",
    "TrainingStopped",
    "Trajectory",
    "Turn",
    "Verdict",
    "evaluate",
    "plan",
    "recipe",
    "testing",
    "toolset",
    "train",
]


def __getattr__(name: str) -> object:
    """A public name, from the module that it stands in."""
    if name == "testing":
        return import_module("patchgrad.testing")
    if name not in _WHERE:
        raise AttributeError(f"patchgrad has no {name}; dir(patchgrad) lists what there is.")
    found: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
