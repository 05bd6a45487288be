"""Files with tests that give none: pytest cannot collect them, or they skip themselves. What is lost with each is read from its source."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod

from patchgrad.tasks.running import Run

BROKEN = "not collected"
IDLE = "in a file that gives none"
_LONGEST = 200
_EXCEPTION = re.compile(r"[\w.]+(?:: |$)")


@dataclass(frozen=True, slots=True)
class Silent:
    """`broken` are files that pytest could not collect, in whole or in part, and why; `idle` those that have tests and give none.

    `uncounted` are the tests in them that no run tells of, by reason.
    """

    broken: Mapping[str, str]
    idle: Mapping[str, str]
    uncounted: Mapping[str, int]


def silent(run: Run, files: Mapping[str, bytes], suites: Sequence[str]) -> Silent:
    """What a run of the suites of a tree did not tell of. A file of which a class cannot be collected is one that cannot."""
    why = {name.split("::")[0]: _told(reason) for name, reason in zip_longest(run.broken, run.reasons, fillvalue="")}
    broken = {path: why[path] for path in sorted(why) if path in files}
    told = Counter(test.split("::")[0] for test in run.outcomes)
    quiet = [path for path in sorted(suites) if path not in broken and path not in told and count_tests(files[path])]
    idle = {path: _told(run.passed_over.get(path, "")) or "pytest finds no test in it" for path in quiet}
    lost = {path: max(count_tests(files[path]) - told[path], int(not told[path])) for path in broken if path in suites}
    uncounted = {BROKEN: sum(lost.values()), IDLE: sum(count_tests(files[path]) for path in idle)}
    return Silent(broken, idle, {reason: count for reason, count in uncounted.items() if count})


def count_tests(source: bytes) -> int:
    """How many tests a file has as far as its source tells: a function that is parametrized with a list of three counts three times."""
    try:
        return _count(ast.parse(source).body)
    except (SyntaxError, ValueError, RecursionError):
        return 0


def _count(body: Sequence[ast.stmt]) -> int:
    found = 0
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            found += _times(node.decorator_list)
        elif isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or node.bases):
            found += _count(node.body) * _times(node.decorator_list)
    return found


def _times(decorators: Sequence[ast.expr]) -> int:
    calls = [call for call in decorators if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "parametrize"]
    values = [[*call.args[1:2], *(word.value for word in call.keywords if word.arg == "argvalues")] for call in calls]
    return prod(len(value.elts) for found in values for value in found if isinstance(value, ast.List | ast.Tuple))


def _told(reason: str) -> str:
    """The line of a reason that says what went wrong: the first that is marked and names an exception, or the first one."""
    lines = [line.strip() for line in reason.strip().split("\n")]
    marked = [line.removeprefix("E ").strip() for line in lines if line.startswith("E ")]
    named = [line for line in marked if _EXCEPTION.match(line)]
    return (named or marked or lines)[0][:_LONGEST].rstrip(": ")
