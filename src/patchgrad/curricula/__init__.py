"""Which tasks come next."""

from __future__ import annotations

from patchgrad.curricula.pool import Pool

__all__ = ["Pool"]
