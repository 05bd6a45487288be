"""Agents: pure functions between text and calls."""

from __future__ import annotations

from patchgrad.agents.react import ReactAgent

__all__ = ["ReactAgent"]
