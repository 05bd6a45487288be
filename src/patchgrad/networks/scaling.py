"""How rotary positions are stretched beyond the length that a model was trained at: four ways, each with the keys of transformers.

`KINDS[kind].read(settings, positions, config)` reads one, and `told()` writes what is read as the same. Pairs of dimensions turn by
`slowed(frequencies, theta)`, `[D / 2]`, cosine and sine are multiplied by `scale`, and `reach(context)` positions can be told apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks.settings import Settings

ORIGINAL = "original_max_position_embeddings"


@dataclass(frozen=True, slots=True)
class Linear:
    """All pairs turn slower by a factor (arXiv 2306.15595)."""

    keys: ClassVar[frozenset[str]] = frozenset({"factor"})
    factor: float
    scale: ClassVar[float] = 1.0

    @classmethod
    def read(cls, told: Settings, positions: int, config: Settings) -> Linear:
        return cls(told.number("factor"))

    def told(self) -> dict[str, Any]:
        return {"rope_type": "linear", "factor": self.factor}

    def reach(self, context: int) -> int:
        return context

    def slowed(self, frequencies: Tensor, theta: float) -> Tensor:
        return frequencies / self.factor


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Pairs turn slower only beyond the positions that the file claims, and no stream here is longer than that."""

    keys: ClassVar[frozenset[str]] = frozenset({"factor", ORIGINAL})
    factor: float
    scale: ClassVar[float] = 1.0

    @classmethod
    def read(cls, told: Settings, positions: int, config: Settings) -> Dynamic:
        return cls(told.number("factor"))

    def told(self) -> dict[str, Any]:
        return {"rope_type": "dynamic", "factor": self.factor}

    def reach(self, context: int) -> int:
        return context

    def slowed(self, frequencies: Tensor, theta: float) -> Tensor:
        return frequencies


@dataclass(frozen=True, slots=True)
class Llama3:
    """Pairs that turn less than `low` times within the original length turn slower by a factor.

    Those that turn more than `high` times stay, and between the two it goes in a line. Llama 3.1 has a factor of 8 from 8,192 positions
    (as in Meta's `apply_scaling`).
    """

    keys: ClassVar[frozenset[str]] = frozenset({"factor", "low_freq_factor", "high_freq_factor", ORIGINAL})
    factor: float
    original: int
    low: float = 1.0
    high: float = 4.0
    scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not (self.factor >= 1 and self.original > 0 and self.high > self.low > 0):
            raise ConfigError(f"llama3 positions need a factor of at least 1, a length, and high above low above 0; this is {self}")

    @classmethod
    def read(cls, told: Settings, positions: int, config: Settings) -> Llama3:
        low, high = told.number("low_freq_factor"), told.number("high_freq_factor")
        return cls(told.number("factor"), _original(told, positions, config), low, high)

    def told(self) -> dict[str, Any]:
        told = {"factor": self.factor, ORIGINAL: self.original, "low_freq_factor": self.low, "high_freq_factor": self.high}
        return {"rope_type": "llama3", **told}

    def reach(self, context: int) -> int:
        return context

    def slowed(self, frequencies: Tensor, theta: float) -> Tensor:
        times = self.original * frequencies / (2 * math.pi)
        share = ((times - self.low) / (self.high - self.low)).clamp(0, 1)
        return (1 - share) * frequencies / self.factor + share * frequencies


@dataclass(frozen=True, slots=True)
class Yarn:
    """A model trained at `original` positions reads `factor` times as many: Qwen2.5 at 32,768 and factor 4 reads 131,072.

    Pairs that turn more than `fast` times within the original length stay as they are, those that turn less than `slow` times are slowed
    down by the factor, and between the two it goes in a line, from pair to pair (`whole`) or not. Cosine and sine are scaled by
    `attention`, which the paper (arXiv 2309.00071) sets to 0.1 ln(factor) + 1, so that attention stays as sharp over more positions.
    """

    keys: ClassVar[frozenset[str]] = frozenset(
        {"factor", ORIGINAL, "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"}
    )
    factor: float
    original: int
    fast: float = 32.0
    slow: float = 1.0
    attention: float = 0.0
    whole: bool = True

    def __post_init__(self) -> None:
        if not (self.factor >= 1 and self.original > 0 and self.fast > self.slow > 0):
            raise ConfigError(f"YaRN needs a factor of at least 1, a length, and fast above slow above 0; this is {self}")

    @classmethod
    def read(cls, told: Settings, positions: int, config: Settings) -> Yarn:
        factor, original = told.number("factor"), _original(told, positions, config)
        fast, slow = told.number("beta_fast", 32.0), told.number("beta_slow", 1.0)
        attention = told.number("attention_factor") if told.has("attention_factor") else 0.0
        both = all(told.content.get(key) for key in ("mscale", "mscale_all_dim"))
        if both and not attention:
            attention = _sharpness(factor, told.number("mscale")) / _sharpness(factor, told.number("mscale_all_dim"))
        return cls(factor, original, fast, slow, attention, told.flag("truncate", True))

    def told(self) -> dict[str, Any]:
        told = {"factor": self.factor, ORIGINAL: self.original, "beta_fast": self.fast, "beta_slow": self.slow}
        extra = ({"attention_factor": self.attention} if self.attention else {}) | ({} if self.whole else {"truncate": False})
        return {"rope_type": "yarn", **told, **extra}

    @property
    def scale(self) -> float:
        """What cosine and sine are multiplied by: `Yarn(4, 32768).scale` -> 1.139."""
        return self.attention or _sharpness(self.factor)

    def reach(self, context: int) -> int:
        return int(self.factor * self.original)

    def slowed(self, frequencies: Tensor, theta: float) -> Tensor:
        pairs = len(frequencies)
        low, high = (pairs * math.log(self.original / (turns * 2 * math.pi)) / math.log(theta) for turns in (self.fast, self.slow))
        if self.whole:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * pairs - 1)
        share = ((torch.arange(pairs, dtype=torch.float32) - low) / (max(high - low, 0) or 0.001)).clamp(0, 1)
        return frequencies / self.factor * share + frequencies * (1 - share)


Scaling = Linear | Dynamic | Llama3 | Yarn
KINDS: Mapping[str, type[Scaling]] = {"linear": Linear, "dynamic": Dynamic, "llama3": Llama3, "yarn": Yarn}


def _original(told: Settings, positions: int, config: Settings) -> int:
    """The length that a model was trained at: that at the top of the file goes before that inside, and `positions` stand for none."""
    return config.whole(ORIGINAL, told.whole(ORIGINAL, positions))


def _sharpness(factor: float, weight: float = 1.0) -> float:
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0
