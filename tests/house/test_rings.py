"""The map of the house: who may import whom, imports for typing and inside functions counted.

values <- contracts <- {folders of alternatives, loops} <- runs <- cli        recipes <- runs        values <- store <- {runs, viewer}
"""

from __future__ import annotations

import ast
from pathlib import Path

import patchgrad

ROOT = Path(patchgrad.__file__).parent
CORE = {"values", "errors", "contracts"}
# used by alternatives: torch networks, ways to other processes, the file that a sandbox's pytest loads, pins, models behind an address,
# functions of the user's, patches as text, what is waited for
PARTS = {"networks", "links", "grading_plugin", "packages", "endpoints", "functions", "patches", "waiting"}
FOLDERS = {
    "agents",
    "agents.tools",
    "grading.rewards",
    "learning.advantages",
    "learning.curricula",
    "learning.objectives",
    "policies",
    "policies.tokenizers",
    "rollouts.executors",
    "sandboxes",
    "tasks",
    "trainers",
}
"""Folders of alternatives: none imports another one."""
LOOPS = {"rollouts", "grading", "learning", "evaluation"}

ALLOWED: dict[str, set[str]] = {
    "": CORE | FOLDERS | LOOPS | {"recipes", "runs", "testing"},  # the public names, each loaded on first use
    "errors": set(),
    "values": {"errors"},
    "contracts": {"values"},
    "config": {"errors"},
    "store": {"values", "errors", ""},
    # evaluation's pure figures: a table is put into words once; the keys of recipes that moved; and where a server listens
    "viewer": {"values", "errors", "store", "evaluation", "config", "recipes", "links"},
    "networks": CORE,
    "grading_plugin": set(),
    "packages": {"errors"},
    "functions": {"errors"},
    "patches": {"errors"},
    "waiting": set(),
    "endpoints": CORE | {"links"},
    "links": CORE,
    "models": CORE | PARTS | {"policies.tokenizers"},
    "testing": CORE | PARTS | LOOPS | {"tasks"},  # its builders store what `tasks.archive` packs
    **dict.fromkeys(FOLDERS, CORE | PARTS),
    "policies": CORE | PARTS | {"policies.tokenizers"},
    **dict.fromkeys(LOOPS, CORE | LOOPS | {"grading_plugin", "functions", "patches", "waiting"}),
    "learning": CORE | LOOPS | {"functions", "links", "waiting"},  # what processes elsewhere have computed
    "recipes": CORE | LOOPS | {"config", "tasks"},
    "runs": CORE | FOLDERS | LOOPS | PARTS | {"config", "store", "viewer", "recipes", ""},
    "guests": CORE | FOLDERS | LOOPS | PARTS | {"recipes", "runs"},  # our tasks in programs of others: a door like the command line
    "__main__": {"cli"},
    "cli": CORE | FOLDERS | LOOPS | PARTS | {"models", "config", "store", "viewer", "recipes", "runs", "testing", ""},
}

LONG = {"contracts.py"}  # who acts stands on one page

MODULES = sorted(ROOT.rglob("*.py"))


def names(path: Path) -> list[str]:
    """`patchgrad/store/run.py` -> `["patchgrad", "store", "run"]`."""
    parts = ["patchgrad", *path.relative_to(ROOT).with_suffix("").parts]
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(path: Path) -> set[str]:
    """Every module of ours that a file imports, in full."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a thing comes from"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "patchgrad"}


def room(module: str) -> str:
    """The innermost room of a module: `patchgrad.store.Run` -> `store`, `patchgrad.agents.tools.View` -> `agents.tools`."""
    parts = module.split(".")[1:]
    inner = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in inner if name in ALLOWED), "")


def test_a_module_imports_only_what_its_ring_may() -> None:
    wrong = [complaint for path in MODULES for complaint in complaints(path)]
    assert not wrong, "\n".join(wrong)


def complaints(path: Path) -> list[str]:
    """What is wrong with a file's place and its imports, a sentence each."""
    here, parts = room(".".join(names(path))), names(path)
    if not here and len(parts) > 1:
        return [f"the house has no room for {path.relative_to(ROOT)}: draw it in the map, or put it where it belongs"]
    return [f"{here or parts[0]} may not import {name}" for name in sorted(imported(path)) if room(name) not in ALLOWED[here] | {here}]


def test_no_module_imports_itself_through_others() -> None:
    files = {".".join(names(path)): path for path in MODULES}
    graph = {name: {_known(target, files) for target in imported(path)} - {name, "", "patchgrad"} for name, path in files.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"a cycle: {' -> '.join([*trail[trail.index(name) :], name])}"
        if name not in done:
            for target in graph[name]:
                visit(target, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def _known(module: str, files: dict[str, Path]) -> str:
    """The file behind a dotted name: `patchgrad.values.Task` -> `patchgrad.values`. A package's own front is no dependency."""
    while module and module not in files:
        module = module.rpartition(".")[0]
    return module


def test_a_file_holds_one_idea() -> None:
    long = {str(path.relative_to(ROOT)) for path in MODULES if len(path.read_text().splitlines()) > 400} - LONG
    assert not long, f"past 400 lines: {long}"


def test_a_function_can_be_read_at_once() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > 60
    ]
    assert not long, f"past 60 lines: {long}"


def test_a_recipe_is_nothing_but_settings() -> None:
    """Without a loop, an await or torch: what is done with a setting stands in `runs/`."""
    for path in sorted((ROOT / "recipes").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        loops = [node.lineno for node in nodes if isinstance(node, ast.For | ast.While | ast.AsyncFunctionDef | ast.Await)]
        assert not loops, f"{path.name} has a loop at lines {loops}"
        foreign = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        foreign |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        assert not {name for name in foreign if name.partition(".")[0] == "torch"}, f"{path.name} imports torch"
