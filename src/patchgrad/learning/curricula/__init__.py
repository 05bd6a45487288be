"""Which tasks come next, and where attempts at them begin."""

from __future__ import annotations

from patchgrad.learning.curricula.pool import Pool
from patchgrad.learning.curricula.prefixes import Prefixes
from patchgrad.learning.curricula.staged import Staged

__all__ = ["Pool", "Prefixes", "Staged"]
