"""Several policies as one: replicas in processes of their own."""

from __future__ import annotations

from patchgrad.policies.replicas.policy import ReplicatedPolicy

__all__ = ["ReplicatedPolicy"]
