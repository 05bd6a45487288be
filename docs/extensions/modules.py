"""Modules as Markdown: each class and function is a directive of Sphinx's Python domain with its docstring inside.

Modules are read as text and never imported: some of them run only inside a sandbox or on a GPU.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def place(module: str) -> Path:
    """The file of a module; `place("patchgrad.values")` is `src/patchgrad/values.py`."""
    path = SOURCE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def tree(module: str) -> ast.Module:
    """The syntax tree of a module; an empty one where there is no such file."""
    return ast.parse(place(module).read_text()) if place(module).is_file() else ast.Module([], [])


@cache
def defined(module: str) -> frozenset[str]:
    """The names that a module defines: classes, functions, and what it assigns."""
    body = tree(module).body
    assigned = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    assigned += [node.target for node in body if isinstance(node, ast.AnnAssign)]
    made = {node.name for node in body if isinstance(node, ast.ClassDef | Function)}
    return frozenset(made | {target.id for target in assigned if isinstance(target, ast.Name)})


@cache
def imported(module: str) -> Mapping[str, tuple[str, str]]:
    """What a module imports from others of this package: name -> module and name there."""
    froms = [node for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("patchgrad")]
    return {each.asname or each.name: (node.module or "", each.name) for node in froms for each in node.names}


def full_name(name: str, module: str) -> str:
    """Where a name is defined: `full_name("Group", "patchgrad.learning.loop")` is `patchgrad.values.Group`."""
    place, short, seen = module, name, set[tuple[str, str]]()
    while short not in defined(place) and short in imported(place) and (place, short) not in seen:
        seen.add((place, short))
        place, short = imported(place)[short]
    return f"{place}.{short}" if short in defined(place) else name


class _Qualified(ast.NodeTransformer):
    """Names in an annotation become the dotted names that Sphinx links to."""

    def __init__(self, module: str) -> None:
        self.module = module

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(full_name(node.id, self.module), node.ctx)


def annotation(node: ast.expr, module: str) -> str:
    """An annotation as text, with dotted names."""
    return ast.unparse(_Qualified(module).visit(copy.deepcopy(node)))


def signature(node: Function, module: str, inside: bool) -> str:
    """`name(arguments) -> result`, without `self`."""
    given = copy.deepcopy(node.args)
    if inside and given.args and given.args[0].arg in ("self", "cls"):
        del given.args[0]
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if each and each.annotation:
            each.annotation = _Qualified(module).visit(each.annotation)
    returned = f" -> {annotation(node.returns, module)}" if node.returns else ""
    return f"{node.name}({ast.unparse(given)}){returned}"


def fenced(head: str, body: str, depth: int, options: str = "") -> str:
    """A directive; outer fences are longer than inner ones."""
    fence = "`" * (12 - 2 * depth)
    return f"{fence}{{{head}\n{options}\n{body}\n{fence}\n"


def members(node: ast.ClassDef, module: str) -> Iterator[str]:
    """Fields and methods of a class, in the order of the source."""
    methods = {child.name for child in node.body if isinstance(child, Function)}
    for child in node.body:
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            if child.target.id.startswith("_") or child.target.id in methods:
                continue
            default = f"\n:value: {json.dumps(ast.unparse(child.value))}" if child.value else ""
            yield fenced(f"py:attribute}} {child.target.id}", "", 1, f":type: {annotation(child.annotation, module)}{default}")
        if isinstance(child, Function) and not child.name.startswith("_"):
            decorators = {ast.unparse(each) for each in child.decorator_list}
            if f"{child.name}.setter" in decorators:
                continue
            told = ast.get_docstring(child) or ""
            if decorators & {"property", "cached_property"}:
                kind = f":type: {annotation(child.returns, module)}" if child.returns else ""
                yield fenced(f"py:property}} {child.name}", told, 1, kind)
            else:
                flags = [name for name in ("classmethod", "staticmethod") if name in decorators]
                flags += ["async"] if isinstance(child, ast.AsyncFunctionDef) else []
                head = f"py:method}} {signature(child, module, 'staticmethod' not in decorators)}"
                yield fenced(head, told, 1, "\n".join(f":{flag}:" for flag in flags))


def definitions(module: str) -> Iterator[str]:
    """Public classes, functions, and names that are assigned, of a module, in the order of the source."""
    body = tree(module).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and not target.id.startswith("_"):
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and after.value.value
            value = ast.unparse(getattr(node, "value", None) or ast.Constant(None))
            shown = f":value: {json.dumps(value)}" if len(value) <= 100 and "\n" not in value else ""
            yield fenced(f"py:data}} {target.id}", inspect.cleandoc(str(said)) if said else "", 0, shown)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bases = ", ".join(annotation(base, module) for base in node.bases)
            body = "\n".join([ast.get_docstring(node) or "", "", *members(node, module)])
            yield fenced(f"py:class}} {node.name}{f'({bases})' if bases else ''}", body, 0)
        elif isinstance(node, Function) and not node.name.startswith("_"):
            asynchronous = ":async:" if isinstance(node, ast.AsyncFunctionDef) else ""
            yield fenced(f"py:function}} {signature(node, module, False)}", ast.get_docstring(node) or "", 0, asynchronous)


def modules(name: str) -> Iterator[str]:
    """A module and those inside it, without private ones and without `__main__`."""
    yield name
    if place(name).name == "__init__.py":
        for path in sorted(place(name).parent.iterdir()):
            inner = path.suffix == ".py" or (path / "__init__.py").is_file()
            if inner and not path.stem.startswith("_"):
                yield from modules(f"{name}.{path.stem}")


def page(name: str) -> str:
    """The reference of a package: a section a module."""
    parts = [f"# `{name}`\n"]
    for module in modules(name):
        body = list(definitions(module))
        told = ast.get_docstring(tree(module)) or ""
        if module != name and not body and place(module).name == "__init__.py" and not told:
            continue
        heading = f"## `{module}`\n" if module != name else ""
        parts.append(f"{heading}\n```{{py:module}} {module}\n```\n\n{told}\n")
        parts += body
    return "\n".join(parts)
