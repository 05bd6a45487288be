"""The recipe `laptop`: the paper's at the size of two cores; and `smoke`, the same path with no claim about skill."""

from __future__ import annotations

from dataclasses import replace

from patchgrad.recipes.evaluation_choice import EvaluationChoice
from patchgrad.recipes.nebius2508 import nebius2508
from patchgrad.recipes.recipe import Recipe, TaskSource
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.stage import Stage
from patchgrad.recipes.warmup import Warmup


def laptop() -> Recipe:
    """`nebius2508("laptop")` under the name of the machine."""
    return replace(nebius2508("laptop"), name="laptop")


def smoke() -> Recipe:
    """Minutes become seconds: every phase once, on a handful of tasks."""
    return Recipe(
        name="smoke",
        tasks=TaskSource(train=24, held_out=8),
        warmup=Warmup(demonstrations=60, edit_drills=120, first_turns=100, tasks=24),
        rft=Rft(tasks=8, attempts=4),
        stages=(
            Stage(iterations=1, tasks=4, attempts=4, minibatch=8, turns=6, length_threshold=4),
            Stage(iterations=1, tasks=4, attempts=4, minibatch=8, turns=8, length_threshold=4, clip_high=0.26, refresh_before=True),
        ),
        evaluation=EvaluationChoice(attempts=2, turns=8),
    )
