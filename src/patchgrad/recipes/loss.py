"""What a token's probability costs in a stage, and how costs become a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Literal

from patchgrad.config import require, within
from patchgrad.recipes.component import Component, named
from patchgrad.recipes.rows import Aggregation, Old

Bounds = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class ImportanceCorrection:
    """Corrections for a sampler that computes other probabilities than the trainer, each by its bounds, off where there are none.

    Each is a factor of a token's cost that depends on old / sampled, and they multiply (`objectives/corrections.py`). Usual are
    `truncate_token` 2, `truncate_sequence` 2, `mask_token` 0.5 and 5, `mask_sequence` 0 and 3, `mask_geometric` 0.999 and 1.001.
    """

    truncate_token: float | None = None
    truncate_sequence: float | None = None
    mask_token: Bounds = None
    mask_sequence: Bounds = None
    mask_geometric: Bounds = None

    def __post_init__(self) -> None:
        require(
            self.truncate_token is None or self.truncate_sequence is None,
            "correction.truncate_token and correction.truncate_sequence weigh a token by the same ratio twice: set one of them",
        )
        _cap("truncate_token", self.truncate_token)
        _cap("truncate_sequence", self.truncate_sequence)
        _around("mask_token", self.mask_token)
        _around("mask_sequence", self.mask_sequence)
        _around("mask_geometric", self.mask_geometric)

    @property
    def none(self) -> bool:
        return self == ImportanceCorrection()

    @property
    def masks(self) -> bool:
        """Does it leave tokens out, and not only weigh them?"""
        return any(bounds is not None for bounds in (self.mask_token, self.mask_sequence, self.mask_geometric))


def _cap(name: str, cap: float | None) -> None:
    require(
        cap is None or cap >= 1,
        f"correction.{name} is {cap}; a cap below 1 would act where sampler and trainer agree: it must be at least 1",
    )


def _around(name: str, bounds: Bounds) -> None:
    low, high = bounds or (1.0, 1.0)
    require(
        0 <= low <= 1 <= high, f"correction.{name} keeps ratios from {low} to {high}; the ratio 1, where both agree, must lie between them"
    )


@dataclass(frozen=True, slots=True)
class KlPenalty:
    """A loss term for leaving the `old` policy, or the `reference`, with which reinforcement learning began (`objectives/kl_penalty.py`).

    As a loss, only `k2` has the gradient of KL(policy, other); that of `k3` is KL(other, policy)'s, and `k1` pulls nowhere. A `weight` of 0
    is none.
    """

    weight: float = 0.0
    estimator: Literal["k1", "k2", "k3"] = "k2"
    to: Literal["old", "reference"] = "reference"

    def __post_init__(self) -> None:
        require(self.weight >= 0, f"kl_penalty.weight is {self.weight}; it must be 0, for none, or more")


@dataclass(frozen=True, slots=True)
class LossChoice:
    """What is none is the row's own (`rows.Row`), and the rest is no row's.

    An optimiser step takes whole groups, of at least `minibatch` trajectories together. An iteration's attempts are gone through in so many
    `epochs`, which the clip keeps near the policy that made them. Ratios are taken to the `old` log-probabilities;
    where these are `recomputed`, the `correction` can correct for what the sampler said otherwise.
    """

    objective: Component | None = None
    clip_low: float | None = None
    clip_high: float | None = None
    aggregate: Aggregation | None = None
    old: Old | None = None
    minibatch: int = 20
    epochs: int = 1
    correction: ImportanceCorrection = field(default_factory=ImportanceCorrection)
    kl_penalty: KlPenalty = field(default_factory=KlPenalty)

    def __post_init__(self) -> None:
        named("objectives", "a stage's loss.objective", self.objective)
        within(1, inf, "loss.", self, "minibatch", "epochs")
