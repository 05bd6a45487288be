"""The README is short, and every place that a page names is there. `test_blocks.py` runs what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = sorted(path for path in [*PROJECT.glob("*.md"), *DOCS.rglob("*.md")] if "generated" not in path.parts)
README = (PROJECT / "README.md").read_text()
HISTORY = re.compile(r"\b(no longer|used to be|until 20\d\d|since 20\d\d|anymore|any more|formerly|previously)\b", re.IGNORECASE)
COINED = re.compile(r"\b(apprentice\w*|workshop|certificates?|certif\w+|retold|genesis|spelling)\b", re.IGNORECASE)
GUIDES = [PROJECT / "README.md", DOCS / "tutorial.md", DOCS / "architecture.md", *sorted((DOCS / "guide").rglob("*.md"))]


def test_it_is_short_and_its_commands_and_its_python_come_early() -> None:
    lines = README.splitlines()
    assert len(lines) <= 160
    assert "make train" in lines[:12]
    python = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[0]
    assert len([line for line in python.splitlines() if line]) <= 12
    assert README.count("```diff") == 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_place_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    linked = [name for name in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in name]
    missing = [name for name in linked if not (page.parent / name).exists()]
    spoken = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", text)
    missing += [name for name in spoken if not (PROJECT / name).exists()]
    assert not missing, f"{page.name} names what is not there: {missing}"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_has_no_history_and_no_coined_words(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [found.group() for pattern in (HISTORY, COINED) for found in pattern.finditer(text)] == []


def test_the_tree_is_the_house() -> None:
    tree = (DOCS / "architecture.md").read_text().split("src/patchgrad/\n")[1].split("```")[0]
    drawn = set(re.findall(r"^[├└]── ([a-z_]+(?:\.py)?)", tree, re.MULTILINE))
    root = PROJECT / "src" / "patchgrad"
    there = {path.name for path in root.iterdir() if not path.name.startswith(("_", ".")) and path.suffix in ("", ".py")}
    assert drawn == there - {"grading_plugin"}
