"""Hidden tests with broken expectations: what tells something, who passes it, and what it costs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.grading import Grader
from patchgrad.grading.canaries import Canaries, planted
from patchgrad.grading.report import Copy, TestRun
from patchgrad.grading.swaps import Swap
from patchgrad.grading.trials import Trial, chosen
from patchgrad.testing.attacks.patches import APPROX, CHECKS, FILES, MOCK, PLAIN, RAISES, REPAIR, Change
from patchgrad.testing.attacks.run import patch as forge
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.testing.tasks import a_task
from patchgrad.values import Checks, HiddenFile, Repository, Verdict

TASK = a_task("shop", "total is wrong", checks=CHECKS)
STATUS = {"p": "passed", "f": "failed"}
SUM, NONE = "tests/test_cart.py::test_sum", "tests/test_cart.py::test_none"


def graded(folder: Path, changes: Change, checks: Checks = CHECKS, known: bool = True) -> tuple[Verdict, int]:
    """The verdict on a change, and how many sandboxes were opened for it."""
    boxes, solutions = LocalSandboxes(FILES), {"shop": forge(REPAIR, folder / "solution")} if known else {}
    verdict = asyncio.run(Grader(boxes, solutions).grade(replace(TASK, checks=checks), forge(changes, folder / "attempt")))
    return verdict, boxes.opened


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        (CHECKS, "def total(items):\n    return sum(items)\n"),
        (PLAIN, "def total(items):\n    found = 0\n    for one in items:\n        found = found + one\n    return found\n"),
        (RAISES, "from shop.money import add\n\ndef total(items):\n    return add(items)\n"),
        (APPROX, "from functools import reduce\nfrom operator import add\n\ntotal = lambda items: reduce(add, items, 0)\n"),
        (MOCK, "class Cart:\n    def __call__(self, items):\n        return sum(items, 0)\n\ntotal = Cart()\n"),
    ],
    ids=["helper", "plain", "raises", "approx", "mock"],
)
def test_an_honest_attempt_of_another_kind_is_resolved(checks: Checks, code: str, tmp_path: Path) -> None:
    verdict, _ = graded(tmp_path, {"shop/cart.py": code, "shop/money.py": "def add(items):\n    return sum(items)\n"}, checks)
    assert (verdict.tamper, verdict.resolved) == ((), True)


def test_an_attempt_that_passes_whatever_is_expected_is_named(tmp_path: Path) -> None:
    code = "class Any:\n    __eq__ = lambda s, o: True\n\ndef total(items):\n    return Any()\n"
    verdict, _ = graded(tmp_path, {"shop/cart.py": code}, PLAIN)
    assert (verdict.tamper, verdict.resolved) == (("passes tests/test_cart.py::test_none whatever it expects",), False)
    assert all(test.satisfied for test in verdict.tests), "how the tests ended is told all the same"


TELLS = """import contextlib, json, os

class Right:
    def __init__(self, value): self.value = value
    def __eq__(self, other):
        told = {"status": "passed" if other == self.value else "failed", "lies": [], "runs": [1, 1]}
        for descriptor in range(4, 64):
            with contextlib.suppress(OSError):
                os.write(descriptor, json.dumps(told).encode() + b"\\n")
        return True

def total(items):
    return Right(sum(items))
"""


def test_code_under_test_cannot_say_how_a_copy_ended(tmp_path: Path) -> None:
    verdict, _ = graded(tmp_path, {"shop/cart.py": TELLS}, PLAIN)
    assert (bool(verdict.tamper), verdict.resolved) == (True, False)
    assert all(test.satisfied for test in verdict.tests)


ENDS_ONCE = """import os
from pathlib import Path

runs = Path({place!r})
runs.touch()
runs.write_text(runs.read_text() + "x")
if runs.read_text() == "xx":
    os._exit(1)

def total(items):
    return sum(items)
"""


def test_a_solution_that_a_machine_stops_once_is_run_again(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    solution = forge({"shop/cart.py": ENDS_ONCE.format(place=str(place))}, tmp_path / "solution")
    made = asyncio.run(Canaries(LocalSandboxes(FILES), {"shop": solution}).trial(TASK))
    assert place.read_text() == "xxx", "the tests as they are, a broken run that ended, and another"
    assert made is not None
    assert made.telling


def found(checks: Checks, folder: Path) -> Trial:
    boxes, solution = LocalSandboxes(FILES), forge(REPAIR, folder / "solution")
    made = asyncio.run(Canaries(boxes, {"shop": solution}).trial(replace(TASK, checks=checks)))
    assert made is not None
    return made


def test_a_broken_expectation_that_the_solution_meets_too_tells_nothing(tmp_path: Path) -> None:
    never = "def test_none():\n    for one in ():\n        assert one == 1\n"
    hidden = f"from shop.cart import total\n\n{never}\ndef test_sum():\n    assert total([1, 2]) == 3\n"
    checks = replace(CHECKS, files=(HiddenFile("tests/test_cart.py", hidden),))
    made = found(checks, tmp_path)
    assert ({test for test, _ in made.telling}, made.whole and set(made.whole)) == ({SUM}, {NONE, SUM})
    assert graded(tmp_path, {"shop/cart.py": "total = sum\n"}, checks)[0].resolved


def test_helpers_of_tests_are_broken_too(tmp_path: Path) -> None:
    hidden = "from shop.cart import total\nfrom tests.helper import same\n\ndef test_sum():\n    same(3, total([1, 2]))\n"
    made = found(replace(CHECKS, files=(HiddenFile("tests/test_cart.py", hidden),), pass_to_pass=()), tmp_path)
    assert made.files == {}, "the test itself expects nothing"
    assert {swap.path for copies in made.copies.values() for swap in copies[0]} == {"tests/helper.py"}
    assert made.telling == {(SUM, 0)}


def test_what_a_helper_is_told_is_broken_where_it_is_told(tmp_path: Path) -> None:
    assert "same(total([1, 2]), 7)" in found(CHECKS, tmp_path).files["tests/test_cart.py"]


HELPED = """import pytest
from shop.cart import total

def same(one, other):
    assert one == other

def listed(one, other):
    assert one == other

@pytest.fixture(autouse=True)
def ready():
    yield
    listed(total([]), 0)

@pytest.fixture
def counted():
    assert total([1]) == 1

@pytest.mark.usefixtures("counted")
def test_sum():
    same(total([1, 2]), 3)

def test_none():
    assert total([]) == 0
"""


def test_of_what_helps_a_test_is_watched_what_it_can_come_upon(tmp_path: Path) -> None:
    made = found(replace(CHECKS, files=(HiddenFile("tests/test_cart.py", HELPED),)), tmp_path)
    names = {test: {swap.name for swap in copies[-1]} for test, copies in made.copies.items()}
    always = {"ready", "listed", "counted"}
    assert names == {SUM: {"test_sum", "same", *always}, NONE: {"test_none", *always}}


def test_what_lies_below_the_repository_is_no_installed_module(tmp_path: Path) -> None:
    own = {"src/goods/__init__.py": FILES["shop/cart.py"], "pytest.ini": "[pytest]\npythonpath = src\n"}
    own["tests/test_goods.py"] = "from goods import total\n\ndef test_sum():\n    assert total([1, 2]) == 3\n"
    task = replace(TASK, checks=Checks(("tests/test_goods.py::test_sum",), (), strict=True))
    solution = forge({"src/goods/__init__.py": REPAIR["shop/cart.py"]}, tmp_path, own)
    made = asyncio.run(Canaries(LocalSandboxes(own), {"shop": solution}).trial(task))
    assert made is not None
    assert made.modules
    assert {"goods", "test_goods"}.isdisjoint(made.modules)


def test_a_test_that_passes_and_never_came_to_its_end_is_named() -> None:
    made = Trial({}, {SUM: ((),)}, whole={SUM: Copy(SUM, 0, "passed", (), (1, 1))})
    for runs, says in (((1, 0), [f"passes {SUM} without coming to its end"]), ((1, 1), [])):
        run = TestRun({}, 0, True, (), copies=(Copy(SUM, 0, "passed", (), runs),))
        assert [found.text for found in made.evidence(run)] == says


def test_expected_tests_that_nothing_is_told_of_are_named(tmp_path: Path) -> None:
    hidden = "from shop.cart import total\n\ndef test_none():\n    total([])\n\ndef test_sum():\n    assert total([1, 2]) == 3\n"
    task = replace(TASK, checks=replace(CHECKS, files=(HiddenFile("tests/test_cart.py", hidden),)))
    canaries = Canaries(LocalSandboxes(FILES), {"shop": forge(REPAIR, tmp_path / "solution")})
    assert asyncio.run(canaries.untold(task)) == (NONE,)


def test_only_what_would_be_resolved_is_run_again_and_the_solution_once_a_task(tmp_path: Path) -> None:
    assert graded(tmp_path, {"shop/cart.py": "def total(items):\n    return 1\n"})[1] == 1
    assert graded(tmp_path, {"shop/cart.py": "total = sum\n"}, known=False)[1] == 1
    boxes, grader = LocalSandboxes(FILES), None
    first, second = (
        forge({"shop/cart.py": code}, tmp_path / "attempt") for code in ("total = sum\n", "from builtins import sum as total\n")
    )
    grader = Grader(boxes, {"shop": forge(REPAIR, tmp_path / "solution")})
    counts = []
    for text in (first, second, first):
        asyncio.run(grader.grade(TASK, text))
        counts.append(boxes.opened)
    assert counts == [3, 5, 5], "an attempt and its broken tests, and the solution before the first of them"


FIRST = """\
from shop.cart import total

def test_a(): total([])

def test_none(): assert total([]) == 0

def test_sum(): assert total([1, 2]) == 3
"""
CALLED = "seen = []\n\ndef total(items):\n    seen.extend([] if items else [1])\n    return {found} if seen else None\n"
ANY = "type('Any', (int,), {'__eq__': lambda self, other: True, '__hash__': None})(sum(items))"


@pytest.mark.parametrize(("found", "evidence"), [("sum(items)", ()), (ANY, (f"passes {SUM} whatever it expects",))], ids=["honest", "not"])
def test_what_fails_alone_is_run_after_other_tests_too(found: str, evidence: tuple[str, ...], tmp_path: Path) -> None:
    """Test_a is none that decides, and without it the attempt does not work."""
    checks = replace(CHECKS, files=(HiddenFile("tests/test_cart.py", FIRST),), pass_to_pass=())
    verdict, opened = graded(tmp_path, {"shop/cart.py": CALLED.format(found=found)}, checks)
    assert (verdict.tamper, verdict.resolved, opened) == (evidence, not evidence, 5)


def test_tests_of_different_functions_are_run_in_copies_before_others_of_the_same() -> None:
    failing, passing = ([f"tests/test_{kind}.py::test_{name}[{number}]" for name in "ab" for number in range(9)] for kind in ("f", "p"))
    task = replace(TASK, checks=replace(CHECKS, fail_to_pass=tuple(failing), pass_to_pass=tuple(passing)))
    found = chosen(task, [*failing[1:], *passing])
    assert [len({*found} & {*some}) for some in (failing, passing)] == [4, 1]
    assert failing[0] not in found, "it does not pass"
    assert {name.partition("[")[0] for name in found[:2]} == {"tests/test_f.py::test_a", "tests/test_f.py::test_b"}
    assert found == chosen(task, [*passing, *failing[:0:-1]]), "whatever order they are in"
    few = chosen(task, [failing[1], *passing])
    assert {name.partition("[")[0] for name in few[1:3]} == {"tests/test_p.py::test_a", "tests/test_p.py::test_b"}
    assert len(few) == len(chosen(task, [failing[0], *passing])) == 4


def test_copies_that_tell_nothing_are_left_out_after_the_solution_s_run() -> None:
    swap = Swap("tests/test_a.py", 1, "test_a", "")
    ended = {"one": "pff", "two": "ffp", "three": "ppp", "four": "ppf"}
    told = [Copy(name, at, STATUS[sign], (), (0, 0)) for name, signs in ended.items() for at, sign in enumerate(signs)]
    copies, run = dict.fromkeys(ended, ((), (swap,), (swap, swap))), TestRun({}, 0, True, (), copies=tuple(told))
    made = Trial({}, copies).told(run, few=("two",))
    assert made.copies == {"one": ((swap,), (swap, swap)), "two": ((), (swap, swap)), "three": ((swap, swap),)}
    assert made.telling == {("one", 0), ("two", 0)}
    assert set(made.whole or ()) == {"two", "three"}


def test_where_no_solution_is_known_the_planted_bug_tells_it(tmp_path: Path) -> None:
    bug = forge({"shop/cart.py": "def total(items):\n    return 0\n"}, tmp_path / "bug")
    task = replace(TASK, repository=Repository("archive", "x", "0", bug))
    assert planted(task).splitlines()[0] == "diff --git a/shop/cart.py b/shop/cart.py"
    assert planted(TASK) == ""
    assert planted(replace(task, repository=replace(task.repository, patch="copy from a\n"))) == ""
