"""Rewards: pure functions of task, trajectory and verdict, so that any of them can be recomputed from a stored run."""

from __future__ import annotations

from patchgrad.grading.rewards.functions import FunctionReward
from patchgrad.grading.rewards.tests import Resolved, TurnPenalty, Unsubmitted, Weighted

__all__ = ["FunctionReward", "Resolved", "TurnPenalty", "Unsubmitted", "Weighted"]
