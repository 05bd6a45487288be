"""The tests that an agent may see: all but those that decide, without a trace of where they stood and without what only they used."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

from patchgrad.tasks.forge.written import written
from patchgrad.tasks.sources import MARK

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SHORT = 3  # a file named `1` is not what a test means by its "1"
_ROUNDS = 8  # a helper of a helper of a helper


def hide(files: Mapping[str, bytes], broken: Sequence[str]) -> dict[str, bytes] | None:
    """What the agent may see of the files of the broken tests; `None` if the tests cannot be taken out.

    A test that is inherited goes from the class that has it. With a test go the blank lines before it, and the tables, helpers and
    imports of its file that nothing else uses: expected values in them would be the answer.
    `hide({"test_a.py": b"T = 1\\ndef test_x(): T\\ndef test_y(): 2\\n"}, ["test_a.py::test_x"])` -> `{"test_a.py": b"def test_y(): 2\\n"}`.
    """
    places = [written(files, test) for test in broken]
    if None in places:
        return None
    poorer = {}
    for path in sorted({place[0] for place in places if place}):
        names = {place[1] for place in places if place and place[0] == path}
        try:
            whole = files[path].decode()
            source = whole.removeprefix(MARK)
            text = _without(source, names)
            if text is None or _of_data(source, names, files):
                return None
            poorer[path] = (whole[: len(whole) - len(source)] + _tidied(text, source, _wanted(files, path))).encode()
        except (UnicodeDecodeError, SyntaxError):
            return None
    return poorer


def _of_data(source: str, names: set[tuple[str, ...]], files: Mapping[str, bytes]) -> bool:
    """Does a test, or what its class has beside tests, name a file that is no Python? That one stays, and may say what is expected."""
    data = {name for name in (PurePosixPath(path).name for path in files) if len(name) > _SHORT and not name.endswith(".py")}

    def named(node: ast.AST, path: tuple[str, ...]) -> bool:
        if isinstance(node, Function | ast.ClassDef):
            path = (*path, node.name)
        if isinstance(node, Function) and node.name.startswith("test") and path not in names:
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 200:
            return PurePosixPath(node.value).name in data
        return any(named(child, path) for child in ast.iter_child_nodes(node))

    tops = {path[0] for path in names}
    return any(named(node, ()) for node in ast.parse(source).body if isinstance(node, Function | ast.ClassDef) and node.name in tops)


def _wanted(files: Mapping[str, bytes], path: str) -> set[str]:
    """The names that other files import from this one; `*` for all of them."""
    module = PurePosixPath(path).with_suffix("")
    own = module.parent.name if module.name == "__init__" else module.name
    others = [content for name, content in files.items() if name != path and name.endswith(".py")]
    return {name for content in others for home, name in _imports(content) if home in (own, "")}


@lru_cache(maxsize=1024)
def _imports(content: bytes) -> frozenset[tuple[str, str]]:
    """The last part of each module that is imported from, nothing for the folder itself, with the names.

    `from .a.b import x` -> `{("b", "x")}`.
    """
    try:
        found = [node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.ImportFrom)]
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(((node.module or "").rpartition(".")[2], alias.name) for node in found for alias in node.names)


def _without(source: str, names: set[tuple[str, ...]]) -> str | None:
    gone: list[tuple[int, int, str]] = []
    found = set()

    def inside(body: Sequence[ast.stmt], path: tuple[str, ...]) -> None:
        own = [n for n in body if isinstance(n, Function) and (*path, n.name) in names]
        for node in own:
            found.add((*path, node.name))
            filler = " " * node.col_offset + "pass" if len(own) == len(body) and node is own[0] else ""
            gone.append((*_lines_of(node), filler))
        for inner in body:
            if isinstance(inner, ast.ClassDef):
                inside(inner.body, (*path, inner.name))

    inside(ast.parse(source).body, ())
    text = _cut(source, gone)
    return text if found == names and _parses(text) else None


def _tidied(text: str, source: str, elsewhere: set[str]) -> str:
    """The text without what it defines at its top and used before tests were taken out, and does not use now; nor classes left empty."""
    before = ast.parse(source)
    used_before, full = _used(before), {node.name for node in before.body if isinstance(node, ast.ClassDef) and not _empty(node)}
    for _ in range(_ROUNDS):
        tree = ast.parse(text)
        used = _used(tree) | elsewhere
        orphans = {name for name in _defined(tree) if name in used_before and name not in used} if "*" not in elsewhere else set()
        orphans |= {n.name for n in tree.body if isinstance(n, ast.ClassDef) and n.name in full and _empty(n) and n.name not in used}
        if not orphans:
            return text
        cut = _cut(text, [piece for node in tree.body if (piece := _piece(node, orphans)) is not None])
        if not _parses(cut):
            return text
        text = cut
    return text


def _used(tree: ast.Module) -> set[str]:
    """Names that are read anywhere, arguments of functions among them, which may be fixtures, and all words in texts."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            found |= set(re.findall(r"\w+", node.value))
    return found


def _defined(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in tree.body:
        found |= _names(node)
    return {name for name in found if not name.startswith(("__", "pytest", "setup", "teardown", "test", "Test"))}


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, Function | ast.ClassDef):
        free = not node.decorator_list or (isinstance(node, Function) and _fixture(node))
        return {node.name} if free else set()
    if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {node.target.id} if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else set()


def _empty(node: ast.ClassDef) -> bool:
    """Has a class neither functions nor classes in it?"""
    return not any(isinstance(inner, Function | ast.ClassDef) for inner in node.body)


def _fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Is it one that runs only where a test names it?"""
    words = [ast.unparse(decorator) for decorator in node.decorator_list]
    plain = len(words) == 1 and words[0].partition("(")[0] in ("pytest.fixture", "fixture")
    return plain and not re.search(r"autouse|name ?=", words[0])


def _piece(node: ast.stmt, orphans: set[str]) -> tuple[int, int, str] | None:
    """The lines of a definition that goes, and what stays of an import."""
    names = _names(node)
    if not names & orphans:
        return None
    if isinstance(node, ast.Import | ast.ImportFrom):
        kept = [alias for alias in node.names if (alias.asname or alias.name).split(".")[0] not in orphans]
        if kept:
            left = ast.Import(kept) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, kept, node.level)
            return (*_lines_of(node), ast.unparse(left))
    return (*_lines_of(node), "") if names <= orphans else None


def _lines_of(node: ast.stmt) -> tuple[int, int]:
    decorators = node.decorator_list if isinstance(node, Function | ast.ClassDef) else []
    return min([node.lineno, *(d.lineno for d in decorators)]) - 1, node.end_lineno or node.lineno


def _cut(text: str, pieces: Sequence[tuple[int, int, str]]) -> str:
    """Without these lines (from 0, the end not included) and the blank ones before them, or after them where a class begins.

    A piece may leave one line in its place.
    """
    lines: list[str | None] = list(text.split("\n"))
    for first, last, filler in pieces:
        lines[first:last] = [filler or None, *([None] * (last - first - 1))]
        while not filler and first and not (lines[first - 1] or "").strip():
            first -= 1
            lines[first] = None
        while not filler and first and last < len(lines) and (lines[first - 1] or "").endswith(":") and _blank(lines[last]):
            lines[last] = None
            last += 1
    return "\n".join(line for line in lines if line is not None).lstrip("\n")


def _blank(line: str | None) -> bool:
    return line is not None and not line.strip()


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
