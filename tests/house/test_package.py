"""What a built distribution holds: every folder of code, and every file that is not code."""

from __future__ import annotations

import tomllib
from pathlib import Path

import patchgrad

ROOT = Path(patchgrad.__file__).parent
PROJECT = Path(__file__).parents[2]


def test_every_folder_of_code_is_a_package() -> None:
    folders = {parent for path in ROOT.rglob("*.py") for parent in path.parents if parent.is_relative_to(ROOT)}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").is_file()]


def test_every_file_that_is_not_code_is_named_as_data() -> None:
    tools = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    named = {path for pattern in tools["package-data"]["patchgrad"] for path in ROOT.glob(pattern)}
    files = {path for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".py" and not _cached(path)}
    assert files <= named, f"not in the distribution: {sorted(files - named)}"


def _cached(path: Path) -> bool:
    """Is it in a cache that a tool left?"""
    return any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(ROOT).parts)
