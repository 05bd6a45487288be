"""Rotary positions (arXiv 2104.09864), and YaRN (arXiv 2309.00071), which stretches them beyond the length that a model was trained at.

Axes: T tokens, D head size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks.settings import Settings

_STRETCHING = {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor"}
_KNOWN = {"rope_type", "type", "rope_theta", "partial_rotary_factor"} | _STRETCHING


@dataclass(frozen=True, slots=True)
class Yarn:
    """A model trained at `original` positions reads `factor` times as many: Qwen2.5 at 32,768 and factor 4 reads 131,072.

    Pairs that turn more than `fast` times within the original length stay as they are, those that turn less than `slow` times are slowed
    down by the factor, and between the two it goes in a line. Cosine and sine are scaled by `attention`, which the paper sets to
    0.1 ln(factor) + 1, so that attention stays as sharp over more positions.
    """

    factor: float
    original: int
    fast: float = 32.0
    slow: float = 1.0
    attention: float = 0.0

    def __post_init__(self) -> None:
        if not (self.factor >= 1 and self.original > 0 and self.fast > self.slow > 0):
            raise ConfigError(f"YaRN needs a factor of at least 1, a length, and fast above slow above 0; this is {self}")

    @property
    def scale(self) -> float:
        """What cosine and sine are multiplied by: `Yarn(4, 32768).scale` -> 1.139."""
        return self.attention or 0.1 * math.log(self.factor) + 1.0

    @property
    def reach(self) -> int:
        """Positions that can be told apart."""
        return int(self.factor * self.original)

    def slowed(self, frequencies: Tensor, theta: float) -> Tensor:
        """The frequencies `[D / 2]` of a model with this base, stretched."""
        pairs = len(frequencies)
        first, last = (pairs * math.log(self.original / (turns * 2 * math.pi)) / math.log(theta) for turns in (self.fast, self.slow))
        low, high = max(math.floor(first), 0), min(math.ceil(last), 2 * pairs - 1)
        share = ((torch.arange(pairs, dtype=torch.float32) - low) / (max(high - low, 0) or 0.001)).clamp(0, 1)
        return frequencies / self.factor * share + frequencies * (1 - share)


def read(config: Settings, positions: int) -> tuple[float, Yarn | None]:
    """The base and the stretching that a `config.json` tells; `positions` is what the file claims in all.

    As transformers reads it, `rope_scaling` takes the place of the whole of `rope_parameters` where both stand there, a base at the top
    of the file is that of the one that has none, and an original length at the top goes before that inside. `ConfigError` for another way
    of scaling.
    """
    told = config.part("rope_scaling") if config.content.get("rope_scaling") else config.part("rope_parameters")
    theta = told.number("rope_theta", config.number("rope_theta", 10_000.0))
    kind = told.text("rope_type", told.text("type", "default"))
    layered = [key for key, value in told.content.items() if isinstance(value, dict)]
    beyond = [key for key in sorted(told.content.keys() - _KNOWN) if told.has(key) and kind != "default"]
    partial = ["partial_rotary_factor" for part in (config, told) if part.number("partial_rotary_factor", 1.0) != 1.0]
    if kind not in ("default", "yarn") or layered or beyond or partial or (kind == "yarn" and not told.has("factor")):
        what = f"rotary positions scaled by {kind}" + "".join(f" with {key}" for key in [*layered, *partial, *beyond][:1])
        raise ConfigError(f"the checkpoint uses {what}, which the embedded network does not have: use another policy")
    if theta <= 1:
        raise ConfigError(f"rope_theta in {told.source} is {theta}: it must be above 1")
    if kind == "default":
        return theta, None
    inside = told.whole("original_max_position_embeddings", positions)
    return theta, Yarn(
        told.number("factor"),
        config.whole("original_max_position_embeddings", inside),
        told.number("beta_fast", 32.0),
        told.number("beta_slow", 1.0),
        told.number("attention_factor") if told.has("attention_factor") else 0.0,
    )


def written(yarn: Yarn, theta: float) -> dict[str, Any]:
    """The `rope_scaling` that transformers and vLLM read as the same."""
    told: dict[str, Any] = {
        "rope_type": "yarn",
        "rope_theta": theta,
        "factor": yarn.factor,
        "original_max_position_embeddings": yarn.original,
        "beta_fast": yarn.fast,
        "beta_slow": yarn.slow,
    }
    return told | ({"attention_factor": yarn.attention} if yarn.attention else {})


def frequencies(size: int, theta: float, yarn: Yarn | None = None) -> Tensor:
    """theta^(-2i/D) for i below D/2, slowed down where there is a `yarn`."""
    exponents = torch.arange(0, size, 2, dtype=torch.float32) / size
    plain = 1.0 / theta**exponents
    return yarn.slowed(plain, theta) if yarn else plain


def rotations(positions: Tensor, turns: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every rotation, `[T, 1, D]` each, halves repeated as transformers lays them out."""
    angles = positions[:, None].float() * turns.to(positions.device)
    angles = torch.cat([angles, angles], -1).unsqueeze(1)
    return angles.cos() * scale, angles.sin() * scale


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates pairs (i, i + D/2) of `[T, H, D]`."""
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat([-right, left], -1) * sine
