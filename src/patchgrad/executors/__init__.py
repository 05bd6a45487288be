"""Where episodes run."""

from __future__ import annotations

from patchgrad.executors.local import LocalExecutor

__all__ = ["LocalExecutor"]
