"""What ends an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from patchgrad.config import within


@dataclass(frozen=True, slots=True)
class AttemptLimits:
    """An attempt ends after so many `turns`, where its `context` is full, or after so many `seconds`, in which case it is stuck.

    `AgentChoice.budget` makes of it what the rollout loop is given.
    """

    turns: int = 8
    context: int = 1024
    seconds: float = 600.0

    def __post_init__(self) -> None:
        within(1, inf, "limits.", self, "turns", "context", "seconds")
