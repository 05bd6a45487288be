"""The recipe `mini`: `laptop` for mini-swe-agent, unchanged, in place of our own agent."""

from __future__ import annotations

from dataclasses import replace

from patchgrad.config import override
from patchgrad.recipes.change import Change, both, values
from patchgrad.recipes.laptop import laptop
from patchgrad.recipes.recipe import Recipe

MINI = (
    Change("the agent of that package, with its own loop, its own words for errors, and one tool", {"agent.scaffold": "mini-swe-agent"}),
    Change("a call in JSON of a command that names its file and its words twice", {"agent.action_tokens": "96"}),
    Change(
        "so an attempt is longer",
        {"policy.context": "3072", "rft.limits.context": "2560", "evaluation.limits.context": "3072"} | both({"limits.context": "2560"}),
    ),
    Change("few iterations", {"stages.0.iterations": "2", "stages.1.iterations": "2"}),
)
"""What `mini` has otherwise than `laptop`, and why."""


def mini() -> Recipe:
    """As `laptop`, with fewer iterations; what one run of it learned stands in docs/guide/agents.md."""
    return override(replace(laptop(), name="mini"), values(*MINI))
