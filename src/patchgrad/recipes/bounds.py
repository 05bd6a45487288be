"""Bounds on the figures of a run, beyond which it warns or ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from patchgrad.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a figure is worth a warning, and where it ends the run; it is bad above them where `stop` is above `warn`, else below."""

    warn: float
    stop: float

    def __post_init__(self) -> None:
        if self.warn == self.stop:
            raise ConfigError(f"a guard's bounds are both {self.warn}: `stop` must lie beyond `warn`, above it or below")

    def crossed(self, value: float) -> Literal["", "warn", "stop"]:
        """Which of them a value is beyond; one that is not a number is beyond both."""
        sign = 1.0 if self.stop > self.warn else -1.0
        if not sign * value <= sign * self.stop:
            return "stop"
        return "warn" if sign * value > sign * self.warn else ""


@dataclass(frozen=True, slots=True)
class Guards:
    """A bound a figure; an iteration's figures are those of `metrics.jsonl`.

    A run ends when a figure is beyond `stop` in `patience` iterations in a row; `logprob_diff` and `sampling_z`, which tell of a fault and
    not of a tendency, end it at once, and `idle`, which is 1 where no update was made and else 0, after half of the patience; and where
    all iterations of a run were idle, at its end. A `stop` above 1 lets it be.

    A share of `spot` of an iteration's attempts is read again by the trainer before it learns from them (`learning/spot.py`); what that
    finds counts for `logprob_diff` and `sampling_z`.

    The defaults are wide guesses. `sampling_z` is in standard errors (`probe.py`), as are `broken_by_action` and `broken_by_version`
    (`suspicion.py`).
    """

    logprob_diff: Bound = Bound(0.05, 0.3)
    sampling_z: Bound = Bound(-4.0, -6.0)
    ratio: Bound = Bound(0.1, 0.5)
    clip_low: Bound = Bound(0.3, 0.7)
    clip_high: Bound = Bound(0.3, 0.7)
    entropy: Bound = Bound(0.01, 0.001)
    ess: Bound = Bound(0.5, 0.1)
    idle: Bound = Bound(0.5, 0.9)
    no_contrast: Bound = Bound(0.9, 0.995)
    limited: Bound = Bound(0.7, 0.98)
    looping: Bound = Bound(0.3, 0.8)
    broken: Bound = Bound(0.05, 0.5)
    broken_by_action: Bound = Bound(4.0, 7.0)
    broken_by_version: Bound = Bound(4.0, 7.0)
    patience: int = 5
    spot: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.spot <= 1:
            raise ConfigError(f"guards.spot is {self.spot}; it is a share of attempts, from 0 to 1")
        if self.patience < 1:
            raise ConfigError(f"guards.patience is {self.patience}; it counts iterations, from 1")
