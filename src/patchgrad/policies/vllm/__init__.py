"""A policy that vLLM samples for, in a process of its own and from an environment of its own."""

from __future__ import annotations

from patchgrad.policies.vllm.policy import VllmPolicy
from patchgrad.policies.vllm.server import Installed, Server

__all__ = ["Installed", "Server", "VllmPolicy"]
