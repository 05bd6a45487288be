"""Seeded small repositories with one planted bug each; `workshop_tasks` makes them."""

from __future__ import annotations

from patchgrad.tasks.synthetic.build import workshop_tasks

__all__ = ["workshop_tasks"]
