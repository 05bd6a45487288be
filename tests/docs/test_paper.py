"""The page on the paper: what it names is there."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "paper.md").read_text()
TABLES = re.findall(r"^\| the paper \| here \| held by \| \|\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
ROWS = [[cell.strip() for cell in line.strip("|\n ").split("|")] for table in TABLES for line in table.splitlines()]
SYMBOLS = sorted({name for row in ROWS for name in re.findall(r"`(patchgrad[\w.]+)`", row[1])})
TESTS = sorted({name for row in ROWS for name in re.findall(r"`(tests/[^`]+)`", row[2])})


def test_each_fact_has_a_place_and_a_test() -> None:
    assert len(ROWS) >= 30
    assert [row[0] for row in ROWS if "`patchgrad." not in row[1] or "`tests/" not in row[2]] == []


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_each_symbol_is_there(symbol: str) -> None:
    module, left = symbol, list[str]()
    while True:
        try:
            found = import_module(module)
            break
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            left.insert(0, name)
    for name in left:
        found = getattr(found, name)


@pytest.mark.parametrize("test", TESTS)
def test_each_test_is_there(test: str) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((PROJECT / path).read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in names if name else any(each.startswith("test_") for each in names)
