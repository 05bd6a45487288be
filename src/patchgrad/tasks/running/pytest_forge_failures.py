"""What a failure of a test looks like from outside: the statement with its values, and a call that shows the fault without the test.

It lies beside `pytest_forge.py` in the interpreter that runs a package's tests.
"""

from __future__ import annotations

import ast
import builtins
import dis
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest

_REQUEST = json.loads(Path(os.environ["PATCHGRAD_FORGE"]).read_text())
_LONGEST = 500
_SHORT = 80
_OURS = re.compile(r" at 0x|id='?\d{9}|" + re.escape(os.path.dirname(_REQUEST["tree"].rstrip("/"))))  # what is of this run alone
_COMPOUND = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.Try,
    ast.With,
    ast.AsyncWith,
)


def explain(info: pytest.ExceptionInfo[BaseException]) -> dict[str, Any]:
    """What shows the fault without the test, tried out here before it is told: a call, or else the failing statement as a script.

    `statement` is neither: the function of the package that the test came in by.
    """
    told: dict[str, Any] = {"statement": _called([entry.frame.raw for entry in info.traceback])}
    for entry in reversed([e for e in info.traceback if _is_test(str(e.path))]):
        try:
            tree = ast.parse(Path(entry.path).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        statement, given = _place(tree, entry.lineno + 1)
        if statement is None:
            continue
        for code, expected in _claims(statement):
            shown = _show(code, expected, entry.frame.raw, given)
            if shown:
                return told | {"shown": shown}
        told["script"] = told.get("script") or _script(statement, entry.frame.raw, given, info.type)
    return told


def _script(statement: ast.stmt, frame: FrameType, given: dict[str, ast.expr], kind: type[BaseException]) -> str:
    """The statement with imports before it and values or earlier assignments in the place of its names, if it fails as the test did.

    `assert box.full` after `box = Box(3)` -> `from box import Box\\nassert Box(3).full`
    """
    if isinstance(statement, _COMPOUND) and not (isinstance(statement, ast.With) and len(statement.body) == 1):
        return ""
    if frame.f_code.co_name == "<lambda>":  # which is defined by the statement, and called elsewhere
        return ""
    alone = _Alone(frame, given)
    try:
        said = ast.unparse(alone.visit(ast.parse(ast.unparse(statement).removeprefix("return ")).body[0]))
        text = "\n".join([*sorted(alone.imports), said])
    except Exception:  # whatever the foreign code does here, the failure is then told without a script
        return ""
    good = alone.tree and len(text) <= 2 * _LONGEST and not _OURS.search(text)
    return text if good and failing(text) == kind.__name__ else ""


def failing(script: str) -> str:
    """The kind of the exception that a script ends with; nothing where it ends well."""
    try:
        exec(compile(script, "script", "exec"), {"__name__": "script"})
    except Exception as error:
        return type(error).__name__
    return ""


def _called(frames: Sequence[FrameType]) -> str:
    """The function of the package that the test came in by, with those arguments that are still what they were: `box.Box.add(4, ...)`."""
    last = max((number for number, frame in enumerate(frames) if _is_test(frame.f_code.co_filename)), default=-1)
    for frame in frames[last + 1 :]:
        code = frame.f_code
        if code.co_filename.startswith(_REQUEST["tree"]) and "<" not in code.co_qualname:
            names = code.co_varnames[: code.co_argcount]
            given = [_constant(name, frame) for name in names if name not in ("self", "cls")]
            return f"{frame.f_globals.get('__name__', '')}.{code.co_qualname}({', '.join(given)})"
    return ""


def _constant(name: str, frame: FrameType) -> str:
    value = frame.f_locals.get(name, ...)
    stored = any(step.opname == "STORE_FAST" and step.argval == name for step in dis.get_instructions(frame.f_code))
    text = repr(value) if isinstance(value, str | bytes | int | float | None) and not stored else ""
    return text if 0 < len(text) <= _SHORT else "..."


def _place(tree: ast.Module, line: int) -> tuple[ast.stmt | None, dict[str, ast.expr]]:
    """The statement at this line, and what was assigned to which name before it in the same function."""
    earlier = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line]
    around = [n for n in earlier if line <= (n.end_lineno or n.lineno)]
    statement = max(around, key=lambda n: (n.lineno, -(n.end_lineno or n.lineno), n.col_offset), default=None)
    function = max((n.lineno for n in around if isinstance(n, ast.FunctionDef)), default=line)
    given: dict[str, ast.expr] = {}
    for node in sorted(earlier, key=lambda n: n.lineno):
        if isinstance(node, ast.Assign) and function < node.lineno < line and isinstance(node.targets[0], ast.Name):
            given[node.targets[0].id] = node.value
    return statement, given


def _is_test(path: str) -> bool:
    return any(path.startswith(place) for place in _REQUEST["places"])


def _claims(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | str | None]]:
    """(expression, what it should be): an expression, words, or `None` when only an exception is wrong."""
    if isinstance(statement, ast.Assert):
        yield from _claim(statement.test)
    elif isinstance(statement, ast.With):
        context, body = statement.items[0].context_expr, statement.body[0]
        if isinstance(context, ast.Call) and "raises" in ast.unparse(context.func).lower() and isinstance(body, ast.Expr | ast.Assign):
            yield body.value, "an exception"
    elif isinstance(statement, ast.Expr | ast.Assign):
        call = statement.value
        name = ast.unparse(call.func).rpartition(".")[2].lower().replace("_", "") if isinstance(call, ast.Call) else ""
        if isinstance(call, ast.Call) and name in ("assertequal", "assertequals", "assertis") and len(call.args) >= 2:
            yield from _equal(call.args[0], call.args[1])
        elif isinstance(call, ast.Call) and name in ("asserttrue", "assertfalse", "assertisnone") and call.args:
            yield call.args[0], {"asserttrue": "a true value", "assertfalse": "a false value", "assertisnone": "None"}[name]
        else:
            yield call, None


def _claim(test: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | str | None]]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _claim(value)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.Is):
        yield from _equal(test.left, test.comparators[0])
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield test.operand, "a false value"
    else:
        yield test, "a true value"


def _equal(left: ast.expr, right: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | str | None]]:
    yield left, right
    yield right, left


def _show(code: ast.expr, expected: ast.expr | str | None, frame: FrameType, given: dict[str, ast.expr]) -> dict[str, str] | None:
    """A call that stands alone, or `None`.

    {"imports": "from box import area", "code": "area(2, 3)", "actual": "returns 5", "expected": "6"}
    """
    alone = _Alone(frame, given)
    try:
        text = ast.unparse(alone.visit(_copy(code)))
        names = alone.names()
        if not alone.tree or len(text) > _LONGEST:
            return None
        value = isinstance(expected, ast.expr) and eval(ast.unparse(expected), frame.f_globals, frame.f_locals)
        wanted = repr(value) if isinstance(expected, ast.expr) else expected or ""
        actual, right = outcome(text, names, wanted)
    except Exception:  # whatever the foreign code does here, the failure is then told without a call
        return None
    if right or _OURS.search(actual + wanted + text) or max(len(actual), len(wanted)) > _LONGEST:
        return None
    return {"imports": "; ".join(sorted(alone.imports)), "code": text, "actual": actual, "expected": wanted}


def outcome(code: str, names: dict[str, Any], expected: str) -> tuple[str, bool]:
    """What the call does, in words, and whether that was expected; nothing expected means no exception."""
    try:
        value = eval(code, names)
        text = repr(value)
    except Exception as error:
        return f"raises {type(error).__name__}: {error}", expected == "an exception"
    words = {"": True, "an exception": False, "a true value": bool(value), "a false value": not value}
    return f"returns {text}", words.get(expected, text == expected)


def _copy(code: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(code), mode="eval").body


class _Alone(ast.NodeTransformer):
    """Put values, imports or earlier assignments in the place of names; `LookupError` for what cannot be told outside the test."""

    def __init__(self, frame: FrameType, given: dict[str, ast.expr]) -> None:
        self.frame = frame
        self.given = given
        self.imports: set[str] = set()
        self.tree = False
        self.own: set[str] = set()

    def names(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        exec("; ".join(sorted(self.imports)), found)
        return found

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self.own |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            self.own |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        return super().visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name, local = node.id, self.frame.f_locals
        if isinstance(node.ctx, ast.Store):
            return node
        if name in self.own or (name in vars(builtins) and name not in local and name not in self.frame.f_globals):
            return node
        value = local.get(name, self.frame.f_globals.get(name, self))
        if isinstance(value, ModuleType):
            parent, _, last = value.__name__.rpartition(".")
            plain = f"from {parent} import {last}" if parent else f"import {last}"
            self._add(value, plain if last == name else f"import {value.__name__} as {name}")
            return node
        if isinstance(value, type | FunctionType):
            for home in (value.__module__.split(".")[0], value.__module__):
                if getattr(sys.modules.get(home), name, None) is value:
                    self._add(sys.modules[home], f"from {home} import {name}")
                    return node
            raise LookupError(name)
        return self._given(name, repr(value)) or _literal(value)

    def _given(self, name: str, text: str) -> ast.expr | None:
        """The expression that the local was assigned, if it has a call in it and still gives the local's value."""
        code = self.given.get(name)
        if name not in self.frame.f_locals or code is None or not any(isinstance(n, ast.Call) for n in ast.walk(code)):
            return None
        inner = _Alone(self.frame, {other: value for other, value in self.given.items() if other != name})
        try:
            found: ast.expr = inner.visit(_copy(code))
            again = eval(ast.unparse(found), inner.names())
            same = repr(again) == text or (" at 0x" in text and type(again) is type(self.frame.f_locals[name]))
        except Exception:  # the foreign code may do anything
            return None
        if not same:
            return None
        self.imports |= inner.imports
        self.tree = self.tree or inner.tree
        return found

    def _add(self, module: ModuleType, line: str) -> None:
        file = module.__file__ or ""
        if _is_test(file):
            raise LookupError(line)
        self.tree = self.tree or file.startswith(_REQUEST["tree"])
        self.imports.add(line)


def _literal(value: object) -> ast.expr:
    text = repr(value)
    try:
        if len(text) <= _LONGEST and ast.literal_eval(text) == value:
            return ast.parse(text, mode="eval").body
    except (ValueError, SyntaxError):
        pass
    raise LookupError(text)
