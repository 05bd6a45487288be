"""What a reader may rely on in every file: public things are explained, nothing is left for later, names follow the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import patchgrad

ROOT = Path(patchgrad.__file__).parent
PROJECT = Path(__file__).parents[2]
MODULES = sorted(ROOT.rglob("*.py"))
EVERYTHING = sorted(
    path
    for place in ("src", "tests", "docs", "benchmarks", ".ci")
    for path in (PROJECT / place).rglob("*")
    if path.is_file() and path.suffix in {".py", ".md", ".toml", ".html", ".css", ".js"}
)
BANNED = {"util", "utils", "base", "manager", "handler", "helpers", "helper", "common", "misc", "v1", "engine", "abstract"}
LATER = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
MACHINE = re.compile(r"(/wo" + r"rk|/Us" + r"ers)/\w|https?://[^ ]*/sim" + r"ple\b")


def relative(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def public(node: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Classes and functions that others may call, and methods of public classes that are not one line of delegation."""
    for child in getattr(node, "body", []):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            yield f"{inside}{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from public(child, f"{child.name}.")


def test_every_module_and_public_name_is_explained() -> None:
    silent = [name for path in MODULES for name in unexplained(path)]
    assert not silent, f"without a docstring: {silent}"


def unexplained(path: Path) -> list[str]:
    """What a file leaves without a docstring: itself, or public names of it."""
    tree = ast.parse(path.read_text())
    itself = [relative(path)] if tree.body and not ast.get_docstring(tree) else []
    return itself + [
        f"{relative(path)}: {name}"
        for name, node in public(tree)
        if "." not in name and isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if not ast.get_docstring(node) and not _plain_value(node)
    ]


def _plain_value(node: ast.AST) -> bool:
    """A small value or a member of a contract says all of itself in its fields."""
    return isinstance(node, ast.ClassDef) and len(node.body) <= 6 and bool(node.decorator_list)


def test_nothing_is_left_for_later_and_no_machine_is_named() -> None:
    found = [
        f"{relative(path)}: {match.group()}"
        for path in EVERYTHING
        for pattern in (LATER, MACHINE)
        for match in pattern.finditer(path.read_text(errors="replace"))
    ]
    assert not found


def test_names_follow_the_field() -> None:
    assert not [relative(path) for path in MODULES if BANNED & set(path.with_suffix("").relative_to(ROOT).parts)]


def test_every_return_is_annotated() -> None:
    open_ended = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is None
    ]
    assert not open_ended


def test_the_rules_have_files_to_hold() -> None:
    assert len(MODULES) > 100
    assert len(EVERYTHING) > len(MODULES)
