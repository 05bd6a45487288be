"""A run for people: one page that needs nothing but a browser, and progress lines for a terminal."""

from __future__ import annotations

from patchgrad.viewer.comparison import comparison
from patchgrad.viewer.page import report

__all__ = ["comparison", "report"]
