"""The recipe `laptop`: the paper's at the size of two cores; and `smoke`, the same path with no claim about skill."""

from __future__ import annotations

from dataclasses import replace

from patchgrad.config import override
from patchgrad.recipes.change import Change, both, values
from patchgrad.recipes.nebius2508 import nebius2508
from patchgrad.recipes.recipe import Recipe


def laptop() -> Recipe:
    """`nebius2508("laptop")` under the name of the machine."""
    return replace(nebius2508("laptop"), name="laptop")


SMOKE = (
    Change(
        "minutes become seconds: a handful of tasks",
        {
            "tasks.train": "24",
            "tasks.held_out": "8",
            "warmup.demonstrations": "60",
            "warmup.edit_drills": "120",
            "warmup.first_turns": "100",
            "warmup.tasks": "24",
            "rft.tasks": "8",
            "rft.attempts": "4",
        },
    ),
    Change("every phase once", both({"iterations": "1"})),
    Change("a network that has seen so little solves nothing, so no share is waited for", {"warmup.until": "0", "warmup.passes": "1"}),
    Change("a choice of policies is made, with no claim about it", {"validation.tasks": "4"}),
    Change(
        "so many attempts as make a step or two",
        both({"sampling.tasks": "4", "sampling.attempts": "4", "loss.minibatch": "8"}),
    ),
    Change(
        "short attempts",
        both({"limits.context": "1024", "reward.length_threshold": "4"})
        | {"stages.0.limits.turns": "6", "stages.1.limits.turns": "8", "evaluation.limits.turns": "8"},
    ),
    Change("so few attempts may well teach nothing", {"guards.patience": "100", "guards.idle.stop": "2"}),
    Change("what brief prompts have by themselves, which is as much", {"agent.observation": "none"}),
    Change("one step is not worth another rate", {"stages.1.lr": "5e-4"}),
    Change("so that every call is run, and the sandboxes are tried", {"sandbox.cache": "false"}),
)
"""What `smoke` has otherwise than `laptop`, and why."""


def smoke() -> Recipe:
    """Minutes become seconds: every phase once, on a handful of tasks."""
    return override(replace(laptop(), name="smoke"), values(*SMOKE))
