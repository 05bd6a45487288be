"""Programs of others as agents: they ask for answers over HTTP as they ask any model, and each turn is made and kept here."""

from __future__ import annotations

from patchgrad.agents.gateway.command import CommandAgent
from patchgrad.agents.gateway.mini import MiniSweAgent

__all__ = ["CommandAgent", "MiniSweAgent"]
