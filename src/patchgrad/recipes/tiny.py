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
            "tasks.train": "6",
            "tasks.held_out": "2",
            "warmup.demonstrations": "16",
            "warmup.edit_drills": "8",
            "warmup.first_turns": "24",
            "warmup.tasks": "6",
            "warmup.epochs": "4",
            "rft.tasks": "3",
            "rft.attempts": "2",
            "rft.batch": "4",
            "evaluation.attempts": "2",
            "evaluation.k": "2",
        },
    ),
    Change("a step for each stage", both({"sampling.tasks": "3", "sampling.attempts": "2", "loss.minibatch": "4"})),
    Change(
        "a network that learns its form from so little, and draws quickly",
        {
            "policy.shape.hidden": "96",
            "policy.shape.head_dim": "32",
            "policy.shape.layers": "3",
            "policy.shape.intermediate": "256",
            "policy.shape.vocabulary": "512",
        },
    ),
    Change("few attempts at once, each of few turns", {"sandbox.concurrency": "6", "sandbox.cache": "true", "rft.limits.turns": "5"}),
)
"""What `tiny` has otherwise than `smoke`, and why."""


def tiny() -> Recipe:
    """Every phase once in some twenty seconds on two cores: to try a reward, a tool or a curriculum of one's own."""
    return override(replace(smoke(), name="tiny"), values(*TINY))
