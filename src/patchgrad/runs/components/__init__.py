"""The parts of a recipe that a name stands for: where the names lead, how parts are made of them, and a hash of the user's code."""

from __future__ import annotations

from patchgrad.runs.components.parts import Parts, named_parts, with_parts
from patchgrad.runs.components.registry import BY_NAME, Registry

__all__ = ["BY_NAME", "Parts", "Registry", "named_parts", "with_parts"]
