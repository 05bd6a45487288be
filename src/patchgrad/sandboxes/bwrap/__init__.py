"""The default sandbox: bubblewrap, overlays and a pool of warm cells; Linux, no privilege, no daemon.

    trainer (backend, link) -- socket --> nest (nest, cell, roots, tree) -- socket --> warden, PID 1 of a cell (warden, children, warm)

The trainer holds no privilege and forks nothing. The nest owns mounts. A warden owns processes and is the only party inside.
"""

from __future__ import annotations

from patchgrad.sandboxes.bwrap.backend import BwrapSandbox, BwrapSandboxes
from patchgrad.sandboxes.linux.packages import ensure_site

__all__ = ["BwrapSandbox", "BwrapSandboxes", "ensure_site"]
