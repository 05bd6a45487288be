"""What pages name as tests are tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

FUNCTION = re.compile(r"`(test_[a-z0-9]+_[a-z0-9_]+)`")
FILE = re.compile(r"\btests/[\w/]+\.py")


SHOWN = re.compile(r"^(`{3,}).*?^\1", re.DOTALL | re.MULTILINE)
"""A block of code or of output, which may name tests of others."""


def pages() -> dict[str, str]:
    """Every page for readers, and the README, without what they show in blocks."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {str(path.relative_to(ROOT)): SHOWN.sub("", path.read_text()) for path in found}


def test_every_test_that_a_page_names_is_there() -> None:
    there = {name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    named = {(page, name) for page, text in pages().items() for name in FUNCTION.findall(text)}
    assert len(named) > 10
    assert not {(page, name) for page, name in named if name not in there}


def test_every_file_of_tests_that_a_study_or_a_decision_names_is_there() -> None:
    named = {(page, name) for page, text in pages().items() for name in FILE.findall(text) if not page.startswith("docs/guide")}
    assert len(named) > 5
    assert not {(page, name) for page, name in named if not (ROOT / name).is_file()}
