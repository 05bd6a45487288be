"""The site: its reference is complete, its navigation names every page, and it builds without a warning where Sphinx is installed."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from patchgrad.config import leaves
from patchgrad.recipes import Evaluation, Recipe

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "extensions"))
reference = importlib.import_module("reference")
modules = importlib.import_module("modules")
sys.path.pop(0)


def test_the_reference_has_every_key_of_a_recipe_and_of_an_evaluation() -> None:
    pages = reference.pages()
    for name, value in (("recipe-keys", Recipe("name")), ("evaluation-keys", Evaluation())):
        told = set(re.findall(r"^\| `([\w.]+)` \|", pages[name], re.MULTILINE))
        assert told == {re.sub(r"\.\d+\.", ".N.", key) for key in leaves(value)}


def test_the_reference_has_every_public_class_and_function_of_the_values() -> None:
    told = set(re.findall(r"\{py:(?:class|function|data)\} (\w+)", modules.page("patchgrad.values")))
    values = importlib.import_module("patchgrad.values")
    assert set(values.__all__) <= told


def test_a_signature_links_types_to_where_they_are_defined() -> None:
    assert modules.full_name("Recipe", "patchgrad.cli.options") == "patchgrad.recipes.recipe.Recipe"
    assert modules.full_name("Sequence", "patchgrad.learning.loop") == "Sequence"


def test_the_navigation_has_every_page() -> None:
    listed = set[Path]()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                name = re.sub(r"^.*<(.*)>$", r"\1", line.strip())
                if name and not name.startswith(":"):
                    listed |= set(page.parent.glob(f"{name}.md"))
    written = {page for page in DOCS.rglob("*.md") if "generated" not in page.parts}
    assert written - listed == {DOCS / "index.md"}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="Sphinx is not installed: make docs brings it")
def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
