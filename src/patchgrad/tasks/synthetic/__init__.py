"""Seeded small repositories with one planted bug each; `synthetic_tasks` makes them."""

from __future__ import annotations

from patchgrad.tasks.synthetic.build import synthetic_tasks

__all__ = ["synthetic_tasks"]
