"""The page of benchmarks is what its files say."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from benchmarks.library import page, pairing, records
from benchmarks.library.tables import TABLES

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
FILES = sorted(records.FOLDER.glob("*.json"))
MODULES = sorted(BENCHMARKS.rglob("*.py"))
SCRIPTS = [path for path in MODULES if '__name__ == "__main__"' in path.read_text()]


def test_the_page_is_written_from_the_files_and_not_by_hand() -> None:
    assert records.PAGE.read_text() == page.written(records.records()), "run python benchmarks/keep.py --page"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_tells_how_it_was_measured_and_how_to_do_it_again(path: Path) -> None:
    told = json.loads(path.read_text())
    assert (BENCHMARKS / f"{told['benchmark']}.py").is_file()
    assert told["command"].startswith(records.command(told["benchmark"], ()))
    assert told["machine"]["processor"]
    assert {"python", "torch"} <= set(told["versions"])


def test_a_kept_file_does_not_tell_where_on_a_machine_it_was_made() -> None:
    places = re.compile(r'"/[a-z]+/')
    assert [str(path) for path in sorted((ROOT / "docs").rglob("*.json")) if places.search(path.read_text())] == []


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
    """A script's own folder is searched first: a `vllm.py` there was what TRL took for vLLM. So it is with a folder beside a script."""
    taken = PEERS | set(sys.stdlib_module_names) | set(packages_distributions()) | {"patchgrad", "benchmarks"}
    beside = {place for script in SCRIPTS for place in script.parent.iterdir() if place.suffix in ("", ".py")}
    names = {place.stem for place in beside if place.suffix or (place / "__init__.py").exists()} - {"__init__"}
    assert not taken & names


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_a_script_runs_from_a_checkout_and_names_its_own_place(script: Path) -> None:
    text, depth = script.read_text(), len(script.relative_to(ROOT).parents) - 1
    tree = ast.parse(text)
    where = f"sys.path.insert(0, str(Path(__file__).resolve().parents[{depth}]))"
    first = next((n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("benchmarks")), None)
    assert first is None or where in text.splitlines()[: first.lineno], "what lies in benchmarks/ is not found from everywhere"
    said = ast.get_docstring(tree) or ""
    assert f"python {script.relative_to(ROOT)}" in said or f"python {script.name}" in said, "its help does not say how it is run"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_a_folder_imports_from_itself_and_from_the_library_alone(path: Path) -> None:
    allowed = {"library", path.parent.name}
    assert {module.split(".")[1] for module in imported(ast.parse(path.read_text())) if module.startswith("benchmarks.")} <= allowed


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that are imported from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from [node.module or ""] if node.module != "benchmarks" else (f"benchmarks.{alias.name}" for alias in node.names)


def test_every_table_is_of_a_script_that_is_there() -> None:
    assert [name for name in TABLES if not (BENCHMARKS / f"{name}.py").is_file()] == []


def test_sides_take_turns_and_ratios_are_told_with_their_spread() -> None:
    order = list[tuple[str, int]]()

    def side(name: str, number: int) -> float:
        order.append((name, number))
        return number + (2.0 if name == "theirs" else 1.0)

    found = pairing.by_turns({"ours": lambda n: side("ours", n), "theirs": lambda n: side("theirs", n)}, rounds=2, warm_up=1)
    assert order == [(name, number) for number in range(3) for name in ("ours", "theirs")]
    assert found == {"ours": [2.0, 3.0], "theirs": [3.0, 4.0]}, "the warm-up is not kept"
    ratio = pairing.over(found["theirs"], found["ours"])
    assert ratio == {"median": pytest.approx(17 / 12), "least": pytest.approx(4 / 3), "most": 1.5}
    assert (pairing.times(ratio), pairing.times([2.0, 2.0, 2.0])) == ("1.42 x (1.33 to 1.50)", "2.00 x")
    assert pairing.joined([{"a": [1.0]}, {"a": [2.0], "b": [3.0]}]) == {"a": [1.0, 2.0], "b": [3.0]}
