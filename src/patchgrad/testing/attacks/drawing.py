"""Choices that follow from a text alone, so that what was drawn once can be drawn again on any machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_FIRST = ("total", "price", "item", "cart", "round", "tax", "line", "entry", "sale", "stock", "rate", "order")
_SECOND = ("sum", "list", "book", "table", "cache", "map", "data", "store", "rules", "core", "view", "test")


class Draw:
    """`Draw("7/patching/12")` makes the same choices each time.

    Of `random.Random` it uses `random()` alone, the one method whose numbers no later Python changes.
    """

    def __init__(self, address: str) -> None:
        self._random = random.Random(address)

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both of which may come."""
        return low + int(self._random.random() * (high - low + 1))

    def chance(self, share: float) -> bool:
        """True so often."""
        return self._random.random() < share

    def pick(self, options: Sequence[T]) -> T:
        """One of these."""
        return options[self.number(0, len(options) - 1)]

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """One to `most` of these in any order, none of them twice."""
        left, found = list(options), []
        for _ in range(self.number(1, min(most, len(left)))):
            found.append(left.pop(self.number(0, len(left) - 1)))
        return found

    def word(self) -> str:
        """A name as programmers give it: `tax_rules_41`."""
        return f"{self.pick(_FIRST)}_{self.pick(_SECOND)}_{self.number(10, 99)}"
