"""What names a phase of a run: a value, rendered where a name is needed, and never parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from patchgrad.recipes.recipe import Recipe


@dataclass(frozen=True, slots=True)
class PhaseId:
    """`PhaseId("reinforce", 1, 0)` is the first iteration of the first stage: `stage1-0` in names of checkpoints.

    `stage` counts from 1 and is 0 where a phase belongs to none. An evaluation comes after the base, after fine-tuning, which is stage 0
    too, or after a stage.
    """

    kind: Literal["base", "imitate", "reinforce", "choose", "evaluate base", "evaluate"]
    stage: int = 0
    iteration: int = 0

    @property
    def trained(self) -> str:
        """What the phase's tables, metrics and attempts are filed under: `rft`, `stage1`."""
        return f"stage{self.stage}" if self.stage else "rft"

    @property
    def reported(self) -> str:
        """What the policy after it is called in the table: `+ RFT`, `+ stage 1 RL`."""
        return f"+ stage {self.stage} RL" if self.stage else "+ RFT"

    @property
    def label(self) -> str:
        """What the ids of its attempts begin with: `stage1/0`."""
        return f"{self.trained}/{self.iteration}"

    @property
    def trains(self) -> bool:
        """Does it make attempts to train on?"""
        return self.kind in ("imitate", "reinforce")

    @property
    def evaluates(self) -> bool:
        """Does it measure a policy, and train none?"""
        return self.kind.startswith("evaluate")

    def __str__(self) -> str:
        if self.kind in ("choose", "evaluate"):
            return f"{self.kind}-{self.trained}"
        return self.kind.replace(" ", "-") if self.kind in ("base", "evaluate base") else f"{self.trained}-{self.iteration}"


def phase_ids(recipe: Recipe) -> list[PhaseId]:
    """The phases of a recipe in order; the same recipe gives the same list, so a position in it is a place to resume."""
    found = [PhaseId("base"), PhaseId("evaluate base")]
    found += [PhaseId("imitate", 0, number) for number in range(recipe.rft.rounds)]
    found += [PhaseId("evaluate")] if recipe.rft.rounds else []
    for number, stage in enumerate(recipe.stages, 1):
        found += [PhaseId("reinforce", number, iteration) for iteration in range(stage.iterations)]
        found += [PhaseId("choose", number)] if recipe.validation.tasks else []
        found.append(PhaseId("evaluate", number))
    return found
