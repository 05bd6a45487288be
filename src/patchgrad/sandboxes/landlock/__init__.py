"""The honest fallback: a sandbox for hosts without user namespaces, weaker than the others and saying so in its capabilities.

trainer (backend) -- socket --> keeper, parent of all that an episode starts (keeper) -- fork --> bash, pytest ..., confined (confine)
"""

from __future__ import annotations

from patchgrad.sandboxes.landlock.backend import LandlockSandbox, LandlockSandboxes

__all__ = ["LandlockSandbox", "LandlockSandboxes"]
