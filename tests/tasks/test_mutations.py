from __future__ import annotations

import ast
import bisect
import difflib
import inspect
import random
import shlex
import textwrap
import types
import warnings

import pytest

from patchgrad.tasks.mutations import FAMILIES, Mutant, apply, edits, mutants

EXAMPLE = '''
"""Module."""
LIMIT = 3


class Box:
    """A box."""

    def __repr__(self) -> str:
        return "Box(%d)" % (1 + 1)

    def area(self, width: int, height: int = 2 + 1) -> int:
        """Width times height: 1 < 2."""
        if not width:
            return 0
        total = width - height
        total = total if width > height else 7
        log.debug("area %d", 1 + 2)
        try:
            total += int("é", 10)  # é before the place: offsets are bytes
        except ValueError:
            pass
        if total and width == 1:
            self.seen = True
        else:
            self.seen = None
        total += 1
        return round(total, LIMIT)
'''


def find(family: str, source: str = EXAMPLE) -> list[Mutant]:
    return [m for m in mutants(source) if m.family == family]


def pairs(family: str, source: str = EXAMPLE) -> list[tuple[str, str]]:
    return [(m.before.strip(), m.after.strip()) for m in find(family, source)]


def test_every_family_finds_a_place_in_the_example() -> None:
    assert {m.family for m in mutants(EXAMPLE)} == set(FAMILIES)
    assert {m.function for m in mutants(EXAMPLE)} == {"Box.area"}


@pytest.mark.parametrize(
    ("family", "before", "after"),
    [
        ("swap_branches", "total = total if width > height else 7", "total = 7 if width > height else total"),
        ("negate_cond", "if not width:", "if width:"),
        ("negate_cond", "if total and width == 1:", "if not (total and width == 1):"),
        (
            "swap_args",
            'total += int("é", 10)  # é before the place: offsets are bytes',
            'total += int(10, "é")  # é before the place: offsets are bytes',
        ),
        ("cmp_negate", "if total and width == 1:", "if total and width != 1:"),
        ("wrong_name", "return round(total, LIMIT)", "return round(width, LIMIT)"),
        ("bool_swap", "if total and width == 1:", "if total or width == 1:"),
        ("bool_swap", "self.seen = True", "self.seen = False"),
        ("return_none", "return round(total, LIMIT)", "return None"),
        ("remove_stmt", "self.seen = True", "pass"),
        ("remove_stmt", "total += 1", ""),
        ("op_swap", "total = width - height", "total = width + height"),
        ("remove_guard", "if not width:\n            return 0", ""),
        ("const_off1", "return 0", "return 1"),
        ("cmp_boundary", "total = total if width > height else 7", "total = total if width >= height else 7"),
    ],
)
def test_a_family_makes_the_bug_that_its_description_names(family: str, before: str, after: str) -> None:
    assert (before, after) in pairs(family)


def test_remove_except_keeps_the_body_at_the_indentation_of_the_try() -> None:
    (mutant,) = find("remove_except")
    assert mutant.after == '        total += int("é", 10)  # é before the place: offsets are bytes\n' or "int(" in mutant.after
    assert "except" not in mutant.source


def test_stub_body_keeps_the_docstring() -> None:
    (mutant,) = find("stub_body")
    assert "Width times height" in mutant.source
    assert "raise NotImplementedError" in mutant.after


def test_nothing_outside_function_bodies_changes() -> None:
    for mutant in mutants(EXAMPLE):
        for kept in ("LIMIT = 3", 'return "Box(%d)" % (1 + 1)', "height: int = 2 + 1", "1 < 2"):
            assert kept in mutant.source
        assert mutant.family == "stub_body" or "1 + 2" in mutant.source


@pytest.mark.parametrize("source", ["", "x = 1 < 2\n", "def f(:\n", "def f(a):\r    return a\r", 'def f():\n    """Doc."""\n'])
def test_a_source_without_a_place_has_no_mutants(source: str) -> None:
    assert mutants(source) == []


def test_windows_line_ends_and_tabs_stay() -> None:
    source = "def f(a):\r\n\tif a < 1:\r\n\t\treturn a\r\n\treturn f(a, 2)\r\n"
    found = mutants(source)
    assert len(found) > 8
    assert all("\n" not in m.source.replace("\r\n", "") for m in found)
    assert all(m.original() == source for m in found)


def test_only_the_families_asked_for() -> None:
    assert {m.family for m in mutants(EXAMPLE, {"op_swap", "const_off1"})} == {"op_swap", "const_off1"}


def test_an_exchange_of_operators_is_undone_by_one_of_the_ways_back() -> None:
    source = "def f(a, b):\n    a += 1\n    b *= a // 2 - b / 3\n    return a + b * 2 % 5 - 1 ** b\n"
    exchanged = mutants(source, {"op_swap"})
    assert len(exchanged) == 10
    for mutant in exchanged:
        assert source in {back.source for back in mutants(mutant.source, {"op_unswap"})}
        assert mutant.source in {bug.source for bug in mutants(source)}
    assert {m.after.strip() for m in mutants("def f(a):\n    return a + 2\n", {"op_unswap"})} == {"return a - 2", "return a * 2"}


@pytest.mark.parametrize("module", [textwrap, shlex, bisect, difflib, types], ids=lambda m: m.__name__)
def test_every_mutant_of_real_code_compiles_in_one_hunk_that_can_be_undone(module: types.ModuleType) -> None:
    source = inspect.getsource(module)
    tree = ast.dump(ast.parse(source))
    candidates = edits(source)
    chosen = random.Random(0).sample(candidates, min(40, len(candidates)))
    found = [m for m in (apply(source, edit) for edit in chosen) if m is not None]
    assert len(found) > 0.9 * len(chosen)
    for mutant in found:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(mutant.source, module.__name__, "exec")
        assert ast.dump(ast.parse(mutant.source)) != tree
        assert mutant.original() == source
        old, new = source.splitlines(keepends=True), mutant.source.splitlines(keepends=True)
        first = mutant.line - 1
        assert "".join(old[first:]).startswith(mutant.before)
        assert "".join(new[first:]).startswith(mutant.after)
        assert old[:first] == new[:first]
        assert len(old) - len(new) == mutant.before.count("\n") - mutant.after.count("\n")


def test_the_order_is_that_of_the_text_and_never_changes() -> None:
    source = inspect.getsource(bisect)
    assert mutants(source) == mutants(source)
    starts = [edit.start for edit in edits(source)]
    assert starts == sorted(starts)
    assert len({m.source for m in mutants(source)}) == len(mutants(source))
