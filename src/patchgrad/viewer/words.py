"""Numbers in words, as a page has them."""

from __future__ import annotations


def counted(number: int, name: str) -> str:
    """`counted(2, "task") == "2 tasks"`, `counted(1, "task") == "1 task"`."""
    return f"{number} {name}{'' if number == 1 else 's'}"
