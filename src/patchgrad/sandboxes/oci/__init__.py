"""Containers of any engine that speaks Docker's protocol, such as Docker and Podman. Needs `patchgrad[docker]`."""

from __future__ import annotations

from patchgrad.sandboxes.oci.backend import OciSandboxes

__all__ = ["OciSandboxes"]
