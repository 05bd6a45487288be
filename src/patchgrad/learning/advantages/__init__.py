"""Advantages: one number per action token, from the rewards of a group. numpy only."""

from __future__ import annotations

from patchgrad.learning.advantages.batch import whitened
from patchgrad.learning.advantages.branches import Branched
from patchgrad.learning.advantages.functions import FunctionEstimator
from patchgrad.learning.advantages.group import GroupNormalised, LeaveOneOut, LengthWeighted, MeanOnly, MeanScaled, Ones, Returns
from patchgrad.learning.advantages.steps import Anchored

__all__ = [
    "Anchored",
    "Branched",
    "FunctionEstimator",
    "GroupNormalised",
    "LeaveOneOut",
    "LengthWeighted",
    "MeanOnly",
    "MeanScaled",
    "Ones",
    "Returns",
    "whitened",
]
