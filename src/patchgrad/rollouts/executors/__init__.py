"""Where episodes run."""

from __future__ import annotations

from patchgrad.rollouts.executors.local import LocalExecutor

__all__ = ["LocalExecutor"]
