"""patchgrad trains software-engineering agents with reinforcement learning on repositories with real tests."""

from __future__ import annotations

__version__ = "0.1.0"
