"""A small task that a line of the shell solves, for programs of others to work on."""

from __future__ import annotations

from pathlib import Path

from patchgrad.testing import a_repository, a_task
from patchgrad.values import Checks, HiddenFile, Task

REPAIR = "sed -i 's/ - 1//' shop.py"
BUGGY = "def total(prices):\n    return sum(prices) - 1\n"
HIDDEN = """from shop import total


def test_total():
    assert total([2, 3]) == 5


def test_number():
    assert total([1]) - total([]) == 1
"""


def shop(folder: Path, id: str = "shop") -> Task:
    """`total` is one too low, and a hidden test says so."""
    checks = Checks(("test_shop.py::test_total",), ("test_shop.py::test_number",), files=(HiddenFile("test_shop.py", HIDDEN),))
    return a_task(id, "The total of prices is one too low.", a_repository(folder, {"shop.py": BUGGY}), checks)
