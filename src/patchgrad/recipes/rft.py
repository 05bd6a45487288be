"""Rejection fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Literal

from patchgrad.config import require, within
from patchgrad.recipes.failures import Failures, unread


@dataclass(frozen=True, slots=True)
class Rft:
    """Rejection fine-tuning, PAPER section 5: roll out, keep what passes, imitate. More rounds than one are the plain baseline to RL.

    Of a task at most `cap` attempts are imitated, or all where it is none, and of twins one with `dedupe`. `batch` counts trajectories per
    optimiser step. The rate rises over `warmup` steps, or a fifth of them if those are fewer; then it stays, or falls along a cosine to 0.
    An attempt that takes `seconds` is stuck.

    With `demonstration` a prompt to collect by shows one solved issue, and what is imitated follows the prompt without it. Of `failures`
    the masked are context and never imitated; the paper masks turns with no command or several.
    """

    rounds: int = 1
    tasks: int = 100
    attempts: int = 10
    demonstration: bool = False
    cap: int | None = 4
    dedupe: bool = True
    epochs: int = 2
    batch: int = 8
    lr: float = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    turns: int = 12
    context: int = 1536
    seconds: float = 600.0
    failures: Failures = field(default_factory=partial(unread, "mask"))

    def __post_init__(self) -> None:
        within(0, inf, "rft.", self, "rounds", "warmup")
        within(1, inf, "rft.", self, "tasks", "attempts", "epochs", "batch", "turns", "context", "seconds", "cap")
        require(self.lr > 0, f"rft.lr is {self.lr}; a learning rate must be above 0")
