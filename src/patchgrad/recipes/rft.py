"""Rejection fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from patchgrad.config import require, within
from patchgrad.recipes.failures import KEEP, Failures
from patchgrad.recipes.limits import AttemptLimits

IMITATED = replace(KEEP, no_command="mask", truncated="mask", several_commands="mask")


@dataclass(frozen=True, slots=True)
class Rft:
    """Rejection fine-tuning, PAPER section 5: roll out, keep what passes, imitate. More rounds than one are the plain baseline to RL.

    Of a task at most `cap` attempts are imitated, or all where it is none, and of twins one with `dedupe`. `batch` counts trajectories per
    optimiser step. The rate rises over `warmup` steps, or a fifth of them if those are fewer; then it stays, or falls along a cosine to 0.

    With `demonstration` a prompt to collect by shows one solved issue, and what is imitated follows the prompt without it. Of `failures`
    the masked are context and never imitated; the paper masks turns with no command or several.
    """

    rounds: int = 1
    tasks: int = 100
    attempts: int = 10
    demonstration: bool = False
    cap: int | None = None
    dedupe: bool = False
    epochs: int = 1
    batch: int = 8
    lr: float = 5e-6
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    limits: AttemptLimits = field(default=AttemptLimits(turns=12, context=1536))
    failures: Failures = field(default=IMITATED)

    def __post_init__(self) -> None:
        within(0, inf, "rft.", self, "rounds", "warmup")
        within(1, inf, "rft.", self, "tasks", "attempts", "epochs", "batch", "cap")
        require(self.lr > 0, f"rft.lr is {self.lr}; a learning rate must be above 0")
