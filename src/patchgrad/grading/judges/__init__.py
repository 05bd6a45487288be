"""What is found of an attempt beside its hidden tests."""

from __future__ import annotations

from patchgrad.grading.judges.functions import FunctionJudge
from patchgrad.grading.judges.patch_size import PatchSize

__all__ = ["FunctionJudge", "PatchSize"]
