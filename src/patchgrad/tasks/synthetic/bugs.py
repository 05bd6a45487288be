"""Which single-line mutants of a template are bugs: they parse, terminate, and some call shows a difference."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from patchgrad.tasks.mutations import mutants
from patchgrad.tasks.synthetic.templates import Template

FAMILIES = ("cmp_boundary", "cmp_negate", "op_swap", "const_off1", "bool_swap", "negate_cond", "swap_args", "wrong_name")
MOST = dict.fromkeys(FAMILIES, 3) | {"wrong_name": 2}  # a template: else wrong names, which are easy to plant, would be half of all bugs
SWAPS = ("cmp_boundary", "cmp_negate", "op_swap", "bool_swap")  # one operator or truth value for another
STEPS = 3000


class _TooLong(Exception):
    """A call that made more steps than any correct one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call does: `returns` with the value's repr, or `raises` with the exception's name."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Bug:
    """A template with one changed line. `cases` are calls of which those in `failing` (indices) show the bug."""

    template: Template
    family: str
    source: str
    broken_line: str
    fixed_line: str
    cases: tuple[tuple[Any, ...], ...]
    expected: tuple[Outcome, ...]
    actual: tuple[Outcome, ...]

    @property
    def failing(self) -> tuple[int, ...]:
        return tuple(i for i, (right, wrong) in enumerate(zip(self.expected, self.actual, strict=True)) if right != wrong)

    @property
    def key(self) -> str:
        return f"{self.template.name}:{self.family}:{self.broken_line.strip()}"


def call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    """Run one call with a bound on the lines it executes; never lets an exception out."""
    left = STEPS

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TooLong
        return trace

    copies = tuple(list(a) if isinstance(a, list) else dict(a) if isinstance(a, dict) else a for a in arguments)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return Outcome("returns", repr(function(*copies)))
    except _TooLong:
        return Outcome("hangs", "")
    except Exception as error:
        return Outcome("raises", type(error).__name__)
    finally:
        sys.settrace(before)


def _compiled(source: str, name: str) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(compile(source, "<workshop>", "exec"), space)
    function: Callable[..., Any] = space[name]
    return function


@cache
def bugs_of(template: Template) -> tuple[Bug, ...]:
    """Usable bugs of one template, at most `MOST` a family, in a fixed shuffled order.

    Usable: one line changed for one line, no call hangs, and at least two of the fourteen calls differ (one for the visible tests, one
    for the hidden ones). The correct function answers every call.
    """
    random_ = random.Random(template.name)
    cases = _distinct_cases(template, random_)
    right = _compiled(template.source, template.name)
    expected = tuple(call(right, case) for case in cases)
    found: list[Bug] = []
    candidates = [m for m in mutants(template.source, FAMILIES) if m.single_line]
    random_.shuffle(candidates)
    for mutant in candidates:
        if sum(bug.family == mutant.family for bug in found) == MOST[mutant.family]:
            continue
        wrong = _compiled(mutant.source, template.name)
        actual = tuple(call(wrong, case) for case in cases)
        bug = Bug(
            template,
            mutant.family,
            mutant.source,
            mutant.after.strip("\n"),
            mutant.before.strip("\n"),
            cases,
            expected,
            actual,
        )
        if any(outcome.kind == "hangs" for outcome in actual) or len(bug.failing) < 2:
            continue
        if bug.broken_line.strip() not in {b.broken_line.strip() for b in found}:
            found.append(bug)
    return tuple(found)


def _distinct_cases(template: Template, random_: random.Random) -> tuple[tuple[Any, ...], ...]:
    cases: dict[str, tuple[Any, ...]] = {}
    function = _compiled(template.source, template.name)
    for _ in range(200):
        case = template.case(random_)
        if call(function, case).kind == "returns":
            cases.setdefault(repr(case), case)
        if len(cases) == 14:
            break
    return tuple(cases.values())
