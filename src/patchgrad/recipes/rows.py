"""The table of algorithms in words and numbers, without torch, so that a recipe can be printed and refused anywhere.

`runs/algorithms.py` makes a row and a stage into functions; `docs/guide/algorithms.md` says when to use which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from patchgrad.errors import ConfigError

Name = Literal[
    "dapo",
    "grpo",
    "dr-grpo",
    "rloo",
    "maxrl",
    "reinforce",
    "reinforce++",
    "reinforce++-baseline",
    "dual-clip",
    "gspo",
    "cispo",
    "cispo-two-sided",
]
Aggregation = Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm", "group-mean-token-mean"]


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm. `low` and `high` are the bounds of its clip, `None` where it has none, and `dual` a second one where A < 0.

    `normalised` advantages are the stage's (`Stage.baseline` and `baseline_offset`). `contrast` keeps the groups whose attempts differ
    (`Stage.filter_on`), `all` every attempt that infrastructure did not break. `whiten` scales advantages over all groups.
    """

    estimator: Literal["normalised", "mean", "leave-one-out", "mean-scaled", "returns"]
    objective: Literal["reinforce", "clip", "gspo", "cispo", "cispo-two-sided"]
    aggregate: Aggregation
    low: float | None = None
    high: float | None = None
    dual: float | None = None
    whiten: bool = False
    select: Literal["contrast", "all"] = "contrast"


ROWS: Mapping[Name, Row] = {
    "dapo": Row("normalised", "clip", "token-mean", 0.2, 0.3),
    "grpo": Row("normalised", "clip", "seq-mean-token-mean", 0.2, 0.2),
    "dr-grpo": Row("mean", "clip", "seq-mean-token-sum-norm", 0.2, 0.2),
    "rloo": Row("leave-one-out", "clip", "token-mean", 0.2, 0.2),
    "maxrl": Row("mean-scaled", "clip", "token-mean", 0.2, 0.2),
    "reinforce": Row("returns", "reinforce", "seq-mean-token-sum", select="all"),
    "reinforce++": Row("returns", "clip", "token-mean", 0.2, 0.2, whiten=True, select="all"),
    "reinforce++-baseline": Row("mean", "clip", "token-mean", 0.2, 0.2, whiten=True),
    "dual-clip": Row("normalised", "clip", "token-mean", 0.2, 0.2, dual=3.0),
    "gspo": Row("normalised", "gspo", "seq-mean-token-mean", 3e-4, 4e-4),
    "cispo": Row("normalised", "cispo", "token-mean", None, 4.0),
    "cispo-two-sided": Row("normalised", "cispo-two-sided", "token-mean", 0.2, 0.28),
}
"""`dapo` has the bounds of arXiv 2508.03501; the original's are 0.2 and 0.28."""


@dataclass(frozen=True, slots=True)
class ImportanceCorrection:
    """Corrections for a sampler that computes other probabilities than the trainer, each by its bounds, off where there are none.

    Each is a factor of a token's cost that depends on old / sampled, and they multiply (`objectives/corrections.py`). Usual are
    `truncate_token` 2, `truncate_sequence` 2, `mask_token` 0.5 and 5, `mask_sequence` 0 and 3, `mask_geometric` 0.999 and 1.001.
    """

    truncate_token: float | None = None
    truncate_sequence: float | None = None
    mask_token: tuple[float, float] | None = None
    mask_sequence: tuple[float, float] | None = None
    mask_geometric: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.truncate_token is not None and self.truncate_sequence is not None:
            raise ConfigError(
                "correction.truncate_token and correction.truncate_sequence weigh a token by the same ratio twice: set one of them"
            )
        for name in ("truncate_token", "truncate_sequence"):
            cap = getattr(self, name)
            if cap is not None and cap < 1:
                raise ConfigError(
                    f"correction.{name} is {cap}; a cap below 1 would act where sampler and trainer agree: it must be at least 1"
                )
        for name in ("mask_token", "mask_sequence", "mask_geometric"):
            low, high = getattr(self, name) or (1.0, 1.0)
            if not 0 <= low <= 1 <= high:
                raise ConfigError(
                    f"correction.{name} keeps ratios from {low} to {high}; the ratio 1, where both agree, must lie between them"
                )

    @property
    def none(self) -> bool:
        return self == ImportanceCorrection()


@dataclass(frozen=True, slots=True)
class KlPenalty:
    """A loss term for leaving the `old` policy, or the `reference`, with which reinforcement learning began (`objectives/kl_penalty.py`).

    As a loss, only `k2` has the gradient of KL(policy, other); that of `k3` is KL(other, policy)'s, and `k1` pulls nowhere.
    """

    weight: float = 0.0
    estimator: Literal["k1", "k2", "k3"] = "k2"
    to: Literal["old", "reference"] = "reference"

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ConfigError(f"kl_penalty.weight is {self.weight}; it must be 0, for none, or more")


def clip(name: Name, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """The bounds that were given, or the algorithm's own; `ConfigError` for what it does not have or what could not work."""
    row = ROWS[name]
    for word, given, own in (("clip_low", low, row.low), ("clip_high", high, row.high)):
        if given is not None and own is None:
            raise ConfigError(f"{word} is {given}, but {name} has no such bound: set it to none, or choose another algorithm")
    low, high = row.low if low is None else low, row.high if high is None else high
    if (low is not None and not 0 < low < 1) or (high is not None and high <= 0):
        raise ConfigError(f"clip_low must lie between 0 and 1, and clip_high above 0; they are {low} and {high}")
    if low is not None and high is not None and low > high:
        raise ConfigError(f"clip_low {low} is above clip_high {high}: it must not be")
    if row.dual is not None and high is not None and high >= row.dual - 1:
        raise ConfigError(
            f"clip_high {high} leaves {name} nothing to bound, whose second clip is at {row.dual}: it must be below {row.dual - 1:g}"
        )
    if row.objective == "gspo" and high is not None and high > 0.05:
        raise ConfigError(
            f"clip_high {high} would never act on {name}'s ratio, a mean over whole sequences: its paper has 3e-4 and 4e-4; "
            "set clip_low and clip_high to none for these"
        )
    return low, high
