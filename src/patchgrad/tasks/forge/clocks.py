"""Tests that judge by the clock: what they say depends on how busy the machine is, and now and then it is wrong.

No handful of runs shows it: two of 50 is what such tests of parsimonious did on a loaded machine. So it is read from their source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime

_CLOCKS = frozenset({"time", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "time_ns"})


def by_the_clock(source: bytes) -> frozenset[str]:
    """The tests of a file that use `timeit`, or read a clock twice: `{"TestSpeed::test_fast", "test_quick"}`.

    A clock is a function of the module `time`, called as `time.perf_counter()` or by a name that was imported from it. A file that is no
    Python has none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    imported = _imported(tree)
    return frozenset(name for name, body in _tests(tree) if _judges(body, imported))


def of_a_day(test: str, day: date) -> bool:
    """Does the id of a test name this day in numbers? On another day no test has that id, which no run of the same day shows.

    `of_a_day("test_a.py::test_text[case7-2026-11-22]", date(2026, 11, 22))` is true, and of `20261122` and `22.11.2026` as well.
    """
    numbers = {int(number) for number in re.findall(r"\d+", test.partition("[")[2])}
    return {day.year, day.month, day.day} <= numbers or int(f"{day:%Y%m%d}") in numbers


def today() -> set[date]:
    """Here and at Greenwich, as tests may ask for either."""
    return {date.today(), datetime.now(UTC).date()}  # tests ask so


def _imported(tree: ast.Module) -> dict[str, str]:
    """What names stand for: `{"timer": "time.perf_counter", "timeit": "timeit"}`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _tests(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}::{name}", body) for name, body in _tests(ast.Module(node.body, [])))


def _judges(body: ast.AST, imported: dict[str, str]) -> bool:
    named = [_stands_for(node, imported) for node in ast.walk(body)]
    clocks = [name for name in named if name.startswith("time.") and name.removeprefix("time.") in _CLOCKS]
    return len(clocks) > 1 or any(name == "timeit" or name.startswith("timeit.") for name in named)


def _stands_for(node: ast.AST, imported: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{imported.get(node.value.id, '')}.{node.attr}"
    return imported.get(node.id, "") if isinstance(node, ast.Name) else ""
