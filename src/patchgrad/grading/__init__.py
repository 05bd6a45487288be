"""A submission -> a verdict, in a fresh sandbox that the agent never touched."""

from __future__ import annotations

from patchgrad.grading.conditions import Conditions
from patchgrad.grading.grade import grade
from patchgrad.grading.grader import Grader
from patchgrad.grading.visible import VisibleTests

__all__ = ["Conditions", "Grader", "VisibleTests", "grade"]
