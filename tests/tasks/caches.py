"""A cache for a test: what is made in it stays there, and the packages that tests run with are those of this machine."""

from __future__ import annotations

from pathlib import Path

from patchgrad.packages import ensure_site
from patchgrad.packages.sites import sites


def a_cache(folder: Path) -> Path:
    """Below `folder`, which is then what `XDG_CACHE_HOME` has to name."""
    ensure_site()
    cache = folder / "patchgrad"
    cache.mkdir(parents=True)
    (cache / "sites").symlink_to(sites())
    return cache
