"""Which tasks come next, and where attempts at them begin."""

from __future__ import annotations

from patchgrad.curricula.pool import Pool
from patchgrad.curricula.prefixes import Prefixes

__all__ = ["Pool", "Prefixes"]
