"""The page of benchmarks is what its files say."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
page = importlib.import_module("page")
sys.path.pop(0)
FILES = sorted((ROOT / "docs" / "benchmarks").glob("*.json"))


def test_the_page_is_written_from_the_files_and_not_by_hand() -> None:
    assert page.PAGE.read_text() == page.written(ROOT / "docs" / "benchmarks"), "run python benchmarks/keep.py --page"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_tells_how_it_was_measured_and_how_to_do_it_again(path: Path) -> None:
    told = json.loads(path.read_text())
    assert (ROOT / "benchmarks" / f"{told['benchmark']}.py").is_file()
    assert told["command"].startswith(f"python benchmarks/{told['benchmark']}.py")
    assert told["machine"]["processor"]
    assert {"python", "torch"} <= set(told["versions"])


def test_a_figure_that_nobody_measured_is_open() -> None:
    assert page.row(page.Figure("speed", "a peer", "3 x", "nothing", lambda _: ("4 x", True)), {})[-1].startswith("**open**")


PEERS = {
    "trl",
    "vllm",
    "transformers",
    "torch",
    "accelerate",
    "datasets",
    "peft",
    "swerex",
    "minisweagent",
    "swesmith",
    "verl",
    "openrlhf",
    "ray",
}


def test_no_script_has_the_name_of_a_package_that_its_neighbours_import() -> None:
    """A script's own folder is searched first: a `vllm.py` there was what TRL took for vLLM."""
    assert not PEERS & {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
