"""Advantages: one number per action token, from the rewards of a group. numpy only."""

from __future__ import annotations

from patchgrad.advantages.batch import whitened
from patchgrad.advantages.branches import Branched
from patchgrad.advantages.group import GroupNormalised, LeaveOneOut, LengthWeighted, MeanOnly, MeanScaled, Ones, Returns
from patchgrad.advantages.steps import Anchored

__all__ = [
    "Anchored",
    "Branched",
    "GroupNormalised",
    "LeaveOneOut",
    "LengthWeighted",
    "MeanOnly",
    "MeanScaled",
    "Ones",
    "Returns",
    "whitened",
]
