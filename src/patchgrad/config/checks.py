"""What a recipe's `__post_init__` says of its values."""

from __future__ import annotations

import math
from typing import Any

from patchgrad.errors import ConfigError


def require(holds: bool, sentence: str) -> None:
    """Raises `ConfigError` with the sentence where it does not hold."""
    if not holds:
        raise ConfigError(sentence)


def within(least: float, most: float, of: str, value: Any, *names: str) -> None:
    """Refuses fields of a value that are neither none nor between both bounds: `within(1, inf, "agent.", choice, "window")`."""
    for name in names:
        given = getattr(value, name)
        bounds = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        require(given is None or least <= given <= most, f"{of}{name} is {given}; it must be {bounds}")
