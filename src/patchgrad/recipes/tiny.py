"""The recipe `tiny`: every phase once in some twenty seconds, to try a part of one's own. It says nothing about skill."""

from __future__ import annotations

from dataclasses import replace

from patchgrad.config import override
from patchgrad.recipes.change import Change, both, values
from patchgrad.recipes.laptop import smoke
from patchgrad.recipes.recipe import Recipe

TINY = (
    Change(
        "as little as every phase can do with",
        {
            "tasks.train": "4",
            "tasks.held_out": "2",
            "warmup.demonstrations": "24",
            "warmup.edit_drills": "0",
            "warmup.first_turns": "16",
            "warmup.tasks": "4",
            "warmup.epochs": "4",
            "warmup.batch": "4",
            "validation.tasks": "0",
            "rft.tasks": "2",
            "rft.attempts": "2",
            "rft.batch": "4",
            "evaluation.attempts": "2",
            "evaluation.k": "2",
        },
    ),
    Change("a step for each stage", both({"sampling.tasks": "2", "sampling.attempts": "2", "loss.minibatch": "4"})),
    Change(
        "so that a step is made although nothing is solved",
        both({"advantage.filter_on": "nothing", "advantage.failures.no_command": "penalise", "advantage.failures.truncated": "penalise"}),
    ),
    Change(
        "a network that is trained and sampled quickly",
        {
            "policy.shape.hidden": "96",
            "policy.shape.head_dim": "32",
            "policy.shape.layers": "2",
            "policy.shape.intermediate": "256",
            "policy.shape.vocabulary": "512",
        },
    ),
    Change("few attempts at once", {"sandbox.concurrency": "4", "sandbox.cache": "true"}),
)
"""What `tiny` has otherwise than `smoke`, and why."""


def tiny() -> Recipe:
    """Every phase once in some twenty seconds on two cores: to try a reward, a tool or a curriculum of one's own."""
    return override(replace(smoke(), name="tiny"), values(*TINY))
