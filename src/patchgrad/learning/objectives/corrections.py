"""What a token weighs where the policy that sampled it is not the trainer's. numpy only.

A sampler computes the same weights with other kernels, or in other precision, and a trainer that trusts its probabilities learns from
tokens that it would not have drawn. With w = old / sampled, `old` being what the trainer says before its first step:

| correction         | factor of a token's cost                                    | from                                   |
|--------------------|-------------------------------------------------------------|----------------------------------------|
| `TruncateToken`    | min(w, cap)                                                 | TIS, fengyao.notion.site/off-policy-rl |
| `TruncateSequence` | min(W, cap), W being the product of w over the sequence     | richardli.xyz/rl-collapse              |
| `MaskToken`        | 1 for w from low to high, else 0                            | IcePop, 2510.18855                     |
| `MaskSequence`     | 1 for W from low to high, else 0                            | MIS, the same page                     |
| `MaskGeometric`    | 1 where the geometric mean of w is from low to high, else 0 | the same page                          |

They go together by multiplication. IcePop, whose kept tokens weigh w, is `Together((MaskToken(0.5, 5.0), TruncateToken(5.0)))`; MIS
`Together((MaskSequence(0.0, 3.0), TruncateSequence(3.0)))`. A sequence is a segment, with its trained tokens. Of thousands of tokens W is
next to 0 or past any cap (0.9^1000 is 1.7e-46); the geometric mean does not depend on how many they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from patchgrad.contracts import LOG_RATIO, Correction
from patchgrad.values import Bools, Floats, floats


@dataclass(frozen=True, slots=True)
class TruncateToken:
    """min(w, cap): log ratios of 0 and 2 weigh 1 and, where the cap is 2, 2 instead of 7.4."""

    cap: float = 2.0

    def __call__(self, ratios: Floats) -> tuple[Floats, Bools]:
        weights = _exp(ratios)
        return floats(np.minimum(weights, self.cap)), weights > self.cap


@dataclass(frozen=True, slots=True)
class TruncateSequence:
    """min(W, cap) at every token: log ratios of 0.1 and 0.2 weigh exp(0.3) = 1.35 both."""

    cap: float = 2.0

    def __call__(self, ratios: Floats) -> tuple[Floats, Bools]:
        weights = _exp(np.full(len(ratios), ratios.sum(dtype=np.float64)))
        return floats(np.minimum(weights, self.cap)), weights > self.cap


@dataclass(frozen=True, slots=True)
class MaskToken:
    """Leaves out the tokens whose w is below `low` or above `high`."""

    low: float = 0.5
    high: float = 5.0

    def __call__(self, ratios: Floats) -> tuple[Floats, Bools]:
        return _band(_exp(ratios), self.low, self.high)


@dataclass(frozen=True, slots=True)
class MaskSequence:
    """Leaves out a sequence whose W is below `low` or above `high`."""

    low: float = 0.0
    high: float = 3.0

    def __call__(self, ratios: Floats) -> tuple[Floats, Bools]:
        return _band(_exp(np.full(len(ratios), ratios.sum(dtype=np.float64))), self.low, self.high)


@dataclass(frozen=True, slots=True)
class MaskGeometric:
    """Leaves out a sequence whose tokens' w have a geometric mean below `low` or above `high`."""

    low: float = 0.999
    high: float = 1.001

    def __call__(self, ratios: Floats) -> tuple[Floats, Bools]:
        mean = ratios.mean(dtype=np.float64) if len(ratios) else 0.0
        return _band(_exp(np.full(len(ratios), mean)), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Together:
    """The product of several, each of which sees the ratios as they are; of none, 1."""

    parts: tuple[Correction, ...]

    def __call__(self, ratios: Floats) -> tuple[Floats, Bools]:
        factors, bounded = np.ones(len(ratios), np.float32), np.zeros(len(ratios), bool)
        for part in self.parts:
            more, where = part(ratios)
            factors, bounded = factors * more, bounded | where
        return floats(factors), bounded


def _exp(ratios: np.ndarray[tuple[int], np.dtype[np.float32 | np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.exp(np.clip(ratios.astype(np.float64), -LOG_RATIO, LOG_RATIO))


def _band(weights: np.ndarray[tuple[int], np.dtype[np.float64]], low: float, high: float) -> tuple[Floats, Bools]:
    outside = (weights < low) | (weights > high)
    return floats(~outside), outside
