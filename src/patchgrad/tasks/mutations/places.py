"""Where bugs fit: byte offsets from `ast` positions, and the nodes of one function that may be changed."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
Splice = tuple[int, int, bytes]


def functions(tree: ast.Module) -> Iterator[tuple[str, Function, Function]]:
    """Every function with its qualified name and the outermost function that holds it: `("Box.area", ...)`."""

    def inside(node: ast.AST, path: str, outermost: Function | None) -> Iterator[tuple[str, Function, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                top = outermost or child
                if child.name != "__repr__":
                    yield path + child.name, child, top
                yield from inside(child, f"{path}{child.name}.", top)
            elif isinstance(child, ast.ClassDef):
                yield from inside(child, f"{path}{child.name}.", outermost)
            else:
                yield from inside(child, path, outermost)

    return inside(tree, "", None)


class Text:
    """Byte offsets from `ast` positions, which count bytes within a line."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        first = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
        self._starts = [first, *(m.end() for m in re.finditer(b"\n", data)), len(data)]

    def start(self, node: ast.AST) -> int:
        if isinstance(node, Function | ast.ClassDef) and node.decorator_list:
            return self.data.rindex(b"@", 0, self.start(node.decorator_list[0]))
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]  # only located nodes come here
        return int(self._starts[line - 1] + column)

    def end(self, node: ast.AST) -> int:
        line, column = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return int(self._starts[line - 1] + column)

    def of(self, *nodes: ast.AST) -> bytes:
        return self.data[self.start(nodes[0]) : self.end(nodes[-1])]

    def line_start(self, offset: int) -> int:
        return self.data.rfind(b"\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        return (self.data.find(b"\n", offset) + 1) or len(self.data)

    def lines_of(self, node: ast.AST) -> tuple[int, int]:
        return self.line_start(self.start(node)), self.line_end(self.end(node))

    def between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> Iterator[Splice]:
        """Exchange the operator `old` (a regular expression) that stands between two operands."""
        gap = self.data[self.end(left) : self.start(right)]
        match = re.search(old.encode(), gap)
        if match and b"#" not in gap:
            yield self.end(left) + match.start(), self.end(left) + match.end(), new.encode()


_QUIET = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print", "cast", "TypeVar", "deprecated"}


class Scope:
    """One function's own nodes, what they stand in, and which local names are bound from which line on."""

    def __init__(self, function: Function, text: Text) -> None:
        self.function = function
        self.text = text
        self.parents: dict[ast.AST, ast.AST] = {}
        self.blocks: dict[ast.AST, list[ast.stmt]] = {}
        self.nodes: list[ast.AST] = [function]
        self.bound: dict[str, int] = {}
        arguments = function.args
        for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            if arg.arg not in ("self", "cls"):
                self.bound[arg.arg] = 0
        for statement in self.block(function.body):
            self._visit(statement, function)

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        for statement in statements:
            self.blocks[statement] = statements
        return statements

    def _visit(self, node: ast.AST, parent: ast.AST) -> None:
        if isinstance(node, Function | ast.ClassDef | ast.JoinedStr | ast.Raise) or _quiet(node):
            return
        self.parents[node] = parent
        self.nodes.append(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id != "_":
            self.bound.setdefault(node.id, node.lineno)
        for field, value in ast.iter_fields(node):
            if field == "annotation":
                continue
            children = value if isinstance(value, list) else [value]
            if field in ("body", "orelse", "finalbody") and isinstance(value, list):
                self.block(value)
            for child in children:
                if isinstance(child, ast.AST):
                    self._visit(child, node)

    def removed(self, statement: ast.stmt) -> Splice:
        """Without this statement: its lines go, or `pass` stands in where the block or the line would break."""
        text = self.text
        start, end = text.start(statement), text.end(statement)
        first, last = text.line_start(start), text.line_end(end)
        own = not text.data[first:start].strip() and re.match(rb"\s*(#|$)", text.data[end:last])
        rest = [s for s in self.blocks[statement] if s is not statement and not is_string(s)]
        return (first, last, b"") if own and rest else (start, end, b"pass")


def _quiet(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return _quiet(node.value)
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in _QUIET


def is_string(node: ast.AST) -> bool:
    """Is this statement nothing but a text, such as a docstring?"""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
