"""What the bugs are: one rule per family, (node, scope) -> splices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from patchgrad.tasks.mutations.places import Scope, Splice, is_string


def _swap_branches(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    text = scope.text
    if isinstance(node, ast.IfExp):
        first, test, last = text.of(node.body), text.data[text.end(node.body) : text.start(node.orelse)], text.of(node.orelse)
        yield text.start(node.body), text.end(node.orelse), last + test + first
    elif isinstance(node, ast.If) and node.orelse and not text.of(node.orelse[0]).startswith(b"elif"):
        middle = text.data[text.end(node.body[-1]) : text.start(node.orelse[0])]
        yield text.start(node.body[0]), text.end(node.orelse[-1]), text.of(*node.orelse) + middle + text.of(*node.body)


def _negate_cond(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    tests = node.ifs if isinstance(node, ast.comprehension) else [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else []
    for test in tests:
        old = scope.text.of(test)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            new = old.removeprefix(b"not").lstrip()
        elif isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            new = b"not " + old
        elif isinstance(test, ast.Constant):
            continue
        else:
            new = b"not (" + old + b")"
        yield scope.text.start(test), scope.text.end(test), new


def _swap_args(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return
    text = scope.text
    for left, right in zip(node.args, node.args[1:], strict=False):
        middle = text.data[text.end(left) : text.start(right)]
        yield text.start(left), text.end(right), text.of(right) + middle + text.of(left)


def _remove_except(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if not isinstance(node, ast.Try) or not node.handlers or node.finalbody:
        return
    text = scope.text
    kept = [text.of(*block) for block in (node.body, node.orelse) if block]
    strings = [n for s in [*node.body, *node.orelse] for n in ast.walk(s) if isinstance(n, ast.Constant | ast.JoinedStr)]
    if any(n.lineno != n.end_lineno for n in strings):  # moving the lines to the left would change the string
        return
    outer = text.data[text.line_start(text.start(node)) : text.start(node)]
    inner = text.data[text.line_start(text.start(node.body[0])) : text.start(node.body[0])]
    if inner.strip():
        return
    lines = (b"\n" + inner).join(kept).split(b"\n")
    yield (
        text.start(node),
        text.end(node),
        b"\n".join([lines[0], *(outer + x[len(inner) :] if x.startswith(inner) else x for x in lines[1:])]),
    )


_NEGATED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Lt: ("<", ">="),
    ast.GtE: (">=", "<"),
    ast.Gt: (">", "<="),
    ast.LtE: ("<=", ">"),
}
_SHIFTED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}


def _cmp_negate(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from scope.text.between(node.left, node.comparators[0], *_NEGATED[type(node.ops[0])])


def _cmp_boundary(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if isinstance(node, ast.Compare):
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            if type(op) in _SHIFTED:
                yield from scope.text.between(left, right, *_SHIFTED[type(op)])


def _wrong_name(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or node.id not in scope.bound:
        return
    parent = scope.parents[node]
    if isinstance(parent, ast.Call) and parent.func is node:
        return
    names = [name for name, line in scope.bound.items() if line < node.lineno or name == node.id]
    after = names[names.index(node.id) + 1 :] + names[: names.index(node.id)]
    if after:
        yield scope.text.start(node), scope.text.end(node), after[0].encode()


def _bool_swap(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if isinstance(node, ast.BoolOp):
        old, new = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from scope.text.between(left, right, old, new)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield scope.text.start(node), scope.text.end(node), str(not node.value).encode()


def _stub_body(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if node is scope.function:
        body = [s for s in scope.function.body if not is_string(s)]
        if body and not isinstance(body[0], ast.Pass | ast.Raise) and not isinstance(getattr(body[0], "value", None), ast.Constant):
            yield scope.text.start(body[0]), scope.text.end(body[-1]), b"raise NotImplementedError"


def _return_none(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield scope.text.start(node), scope.text.end(node), b"return None"


def _remove_stmt(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if isinstance(node, ast.Assign):
        names = [n for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        removable = all(scope.bound.get(n.id, node.lineno) < node.lineno for n in names)  # else only a NameError follows
    else:
        removable = isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await))
    if removable and isinstance(node, ast.stmt):
        yield scope.removed(node)


_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"),
    ast.Pow: (r"\*\*", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
    ast.BitXor: (r"\^", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}


_UNDONE = {
    kind: tuple((old, bug.replace("\\", "")) for bug, becomes in _OPERATORS.values() if becomes == old.replace("\\", ""))
    for kind, (old, _) in _OPERATORS.items()
}
"""What may have stood there before an exchange: of `+` these are `-` and `*`, of `%` nothing."""


def _op_swap(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    for left, right, operator in _arithmetic(node):
        yield from scope.text.between(left, right, *_OPERATORS[operator])


def _op_unswap(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    for left, right, operator in _arithmetic(node):
        for old, new in _UNDONE[operator]:
            yield from scope.text.between(left, right, old, new)


def _arithmetic(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, type[ast.operator]]]:
    """The operands of an operator that can be exchanged, and its kind."""
    if isinstance(node, ast.BinOp):
        left, right = node.left, node.right
    elif isinstance(node, ast.AugAssign):
        left, right = node.target, node.value
    else:
        return
    texts = [n for n in (left, right) if isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and isinstance(n.value, str | bytes))]
    if not texts and type(node.op) in _OPERATORS:  # text minus text is a TypeError, no bug that somebody would write
        yield left, right, type(node.op)


def _remove_guard(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    leaves = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
    if isinstance(node, ast.If) and leaves and not node.orelse and not scope.text.of(node).startswith(b"elif"):
        yield scope.removed(node)


def _const_off1(node: ast.AST, scope: Scope) -> Iterator[Splice]:
    if isinstance(node, ast.Constant) and type(node.value) is int and scope.text.of(node).isdigit():
        negative = isinstance(scope.parents[node], ast.UnaryOp)
        for value in (node.value + 1, node.value - 1):
            if value >= (1 if negative else 0):
                yield scope.text.start(node), scope.text.end(node), str(value).encode()


RULES: dict[str, Callable[[ast.AST, Scope], Iterator[Splice]]] = {
    "swap_branches": _swap_branches,
    "negate_cond": _negate_cond,
    "swap_args": _swap_args,
    "remove_except": _remove_except,
    "cmp_negate": _cmp_negate,
    "wrong_name": _wrong_name,
    "bool_swap": _bool_swap,
    "stub_body": _stub_body,
    "return_none": _return_none,
    "remove_stmt": _remove_stmt,
    "op_swap": _op_swap,
    "op_unswap": _op_unswap,
    "remove_guard": _remove_guard,
    "const_off1": _const_off1,
    "cmp_boundary": _cmp_boundary,
}
"""`op_unswap` is none of the `FAMILIES`: it undoes `op_swap`, which alone of the exchanges is not its own inverse."""
