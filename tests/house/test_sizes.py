"""How large a class and a row of parameters may be, and which exceptions there are (docs/decisions/0036)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import patchgrad

ROOT = Path(patchgrad.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
METHODS, ATTRIBUTES, PARAMETERS = 12, 10, 7

LARGE_CLASSES = {
    "learning/curricula/pool.py Pool",
    "rollouts/environment.py Environment",
    "sandboxes/bwrap/backend.py BwrapSandboxes",
    "sandboxes/bwrap/cell.py Cell",
    "sandboxes/bwrap/link.py Link",
    "sandboxes/bwrap/nest.py Nest",
    "sandboxes/bwrap/warden.py Warden",
    "sandboxes/landlock/backend.py LandlockSandbox",
    "sandboxes/landlock/keeper.py Keeper",
    "sandboxes/oci/backend.py OciSandbox",
    "sandboxes/oci/backend.py OciSandboxes",
    "testing/sandbox_double.py LocalSandbox",
}
LONG_ROWS = {
    "networks/attention.py attend",
    "networks/attention_rounded.py _means",
    "networks/attention_rounded.py _scores",
    "networks/attention_rounded.py attend",
    "networks/between.py _turned",
    "networks/between.py turned",
    "policies/embedded/policy.py EmbeddedPolicy.__init__",
    "trainers/local.py LocalTrainer.__init__",
}
IGNORED_TYPES = {
    "grading_plugin/patchgrad_report.py": 1,
    "runs/planning/rehearsal.py": 2,
    "sandboxes/archives.py": 1,
    "sandboxes/bwrap/warm.py": 2,
    "sandboxes/oci/shell.py": 2,
    "tasks/mutations/places.py": 2,
    "tasks/running/pytest_forge.py": 2,
}
_IGNORED = re.compile(r"#\s*type:\s*ignore")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def definitions(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Classes and functions with their full names, wherever they are defined."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{inside}{child.name}", child
            yield from definitions(child, f"{inside}{child.name}.")
        else:
            yield from definitions(child, inside)


def everything() -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """All of `src`: `"store/run.py Run.create"` and its node."""
    for path in MODULES:
        for name, node in definitions(ast.parse(path.read_text())):
            yield f"{path.relative_to(ROOT)} {name}", node


def acts(node: ast.ClassDef) -> bool:
    """Is it none of a frozen value, a Protocol, and a row of keywords?"""
    frozen = any("frozen=True" in ast.unparse(decorator) for decorator in node.decorator_list)
    return not frozen and not any(ast.unparse(base).startswith(("Protocol", "TypedDict")) for base in node.bases)


def methods(node: ast.ClassDef) -> set[str]:
    """Its functions by name; the setter of a property is not another one."""
    return {child.name for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)}


def attributes(node: ast.ClassDef) -> set[str]:
    """What it declares in its body, or sets on itself in a method."""
    declared = {child.target.id for child in node.body if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)}
    stored = (child for child in ast.walk(node) if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store))
    return declared | {child.attr for child in stored if isinstance(child.value, ast.Name) and child.value.id == "self"}


def parameters(node: Function) -> list[str]:
    """All that a call can hand over."""
    row = node.args
    every = [*row.posonlyargs, *row.args, *row.kwonlyargs, *(one for one in (row.vararg, row.kwarg) if one)]
    return [one.arg for one in every if one.arg not in ("self", "cls")]


def test_a_class_that_acts_has_one_idea() -> None:
    classes = ((name, node) for name, node in everything() if isinstance(node, ast.ClassDef) and acts(node))
    assert {name for name, node in classes if len(methods(node)) > METHODS or len(attributes(node)) > ATTRIBUTES} == LARGE_CLASSES


def test_a_call_can_be_read() -> None:
    functions = ((name, node) for name, node in everything() if not isinstance(node, ast.ClassDef))
    assert {name for name, node in functions if len(parameters(node)) > PARAMETERS} == LONG_ROWS


def test_a_type_is_said_and_not_ignored() -> None:
    found = Counter({str(path.relative_to(ROOT)): len(_IGNORED.findall(path.read_text())) for path in MODULES})
    assert dict(+found) == IGNORED_TYPES


def test_what_is_there_is_there_by_its_type() -> None:
    """In `testing/` assertions are what is offered."""
    asserted = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        if path.relative_to(ROOT).parts[0] != "testing"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and ast.unparse(node.test).endswith("is not None")
    ]
    assert not asserted


def test_the_rules_count_what_they_say() -> None:
    (node,) = ast.parse(
        "class Shop(Thing):\n"
        "    open: bool\n"
        "    def __init__(self, a, *, b=1, **c):\n        self.a, (self.b, other.c) = a, (b, c)\n"
        "    @property\n    def d(self):\n        self.b += 1\n"
    ).body
    assert isinstance(node, ast.ClassDef)
    assert (methods(node), attributes(node)) == ({"__init__", "d"}, {"open", "a", "b"})
    made = node.body[1]
    assert isinstance(made, ast.FunctionDef)
    assert parameters(made) == ["a", "b", "c"]
    assert acts(node)
    (value, contract) = ast.parse("@dataclass(frozen=True)\nclass A: ...\nclass B(Protocol[T]): ...").body
    assert isinstance(value, ast.ClassDef)
    assert isinstance(contract, ast.ClassDef)
    assert not acts(value)
    assert not acts(contract)
