"""Rotary positions (arXiv 2104.09864): how far pairs of dimensions turn from one position to the next.

Axes: T tokens, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from patchgrad.errors import ConfigError
from patchgrad.networks.scaling import KINDS, Scaling
from patchgrad.networks.settings import Settings

_KNOWN = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


def read(config: Settings, positions: int) -> tuple[float, Scaling | None]:
    """The base and the stretching that a `config.json` tells; `positions` is what the file claims in all.

    As transformers reads it, `rope_scaling` takes the place of the whole of `rope_parameters` where both stand there, a base at the top
    of the file is that of the one that has none, and an original length at the top goes before that inside. `ConfigError` for another way
    of scaling.
    """
    told = config.part("rope_scaling") if config.content.get("rope_scaling") else config.part("rope_parameters")
    theta = told.number("rope_theta", config.number("rope_theta", 10_000.0))
    kind = told.text("rope_type", told.text("type", "default"))
    _refuse(config, told, kind)
    if theta <= 1:
        raise ConfigError(f"rope_theta in {told.source} is {theta}: it must be above 1")
    return theta, None if kind == "default" else KINDS[kind].read(told, positions, config)


def _refuse(config: Settings, told: Settings, kind: str) -> None:
    """`ConfigError` for what is not among the ways of scaling, and for a key that none of theirs is."""
    layered = [key for key, value in told.content.items() if isinstance(value, dict)]
    partial = ["partial_rotary_factor" for part in (config, told) if part.number("partial_rotary_factor", 1.0) != 1.0]
    known = _KNOWN | (KINDS[kind].keys if kind in KINDS else set())
    beyond = [key for key in sorted(told.content.keys() - known) if told.has(key) and kind != "default"]
    lacking = kind != "default" and not told.has("factor")
    if kind not in ("default", *KINDS) or layered or partial or beyond or lacking:
        what = f"rotary positions scaled by {kind}" + "".join(f" with {key}" for key in [*layered, *partial, *beyond][:1])
        raise ConfigError(f"the checkpoint uses {what}, which the embedded network does not have: use another policy")


def frequencies(size: int, theta: float, scaling: Scaling | None = None) -> Tensor:
    """theta^(-2i/D) for i below D/2, slowed down where positions are stretched."""
    exponents = torch.arange(0, size, 2, dtype=torch.float32) / size
    plain = 1.0 / theta**exponents
    return scaling.slowed(plain, theta) if scaling else plain


def rotations(positions: Tensor, turns: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of every rotation, `[T, 1, D]` each, halves repeated as transformers lays them out."""
    angles = positions[:, None].float() * turns.to(positions.device)
    angles = torch.cat([angles, angles], -1).unsqueeze(1)
    return angles.cos() * scale, angles.sin() * scale


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates pairs (i, i + D/2) of `[T, H, D]`."""
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat([-right, left], -1) * sine
