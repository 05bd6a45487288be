"""The policy that runs in this process, on a CPU, from a folder of safetensors or from a network in memory."""

from __future__ import annotations

from patchgrad.policies.embedded.policy import EmbeddedPolicy
from patchgrad.policies.tokenizers.chat import ChatTokenizer

__all__ = ["ChatTokenizer", "EmbeddedPolicy"]
