"""A test of properties is given the solution's examples as well, whatever an attempt makes of those that it draws."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.grading import Grader
from patchgrad.grading.canaries import Canaries
from patchgrad.testing.attacks.patches import CHECKS, FILES, REPAIR
from patchgrad.testing.attacks.run import patch as forge
from patchgrad.testing.sandbox_double import LocalSandboxes
from patchgrad.testing.tasks import a_task
from patchgrad.values import Checks, HiddenFile, Task, Verdict

HEAD = """from hypothesis import assume, given, note, settings, strategies as st
from shop.cart import total

def test_none():
    assert total([]) == 0

"""
LISTS = """@given(st.lists(st.integers(), min_size=1))
def test_sum(items):
    assert total(items) == sum(items)
"""
ASSUMES = """@given(st.lists(st.integers()))
def test_sum(items):
    assume(items)
    assert total(items) == sum(items)
    note("seen")
"""
DRAWS = """@given(st.data())
def test_sum(data):
    items = data.draw(st.lists(st.integers(), min_size=1))
    assert total(items) == sum(items)
"""
INSIDE = """class TestSum:
    @given(st.integers(), st.text())
    def test_sum(self, tmp_path_factory, number, text):
        assert total([number, len(text)]) == number + len(text)
"""
EASY = """from hypothesis.strategies import integers
found = integers()
while hasattr(found, "wrapped_strategy"):
    found = found.wrapped_strategy
found.start = found.end = 0

def total(items):
    return 0
"""
HELD_UP = """import time
waits = [0.4]

def total(items):
    if items and waits:
        time.sleep(waits.pop())
    return sum(items)
"""


def task(test: str) -> Task:
    inside = "TestSum::" if "class" in test else ""
    hidden = (HiddenFile("tests/test_cart.py", HEAD + test),)
    checks: Checks = replace(CHECKS, fail_to_pass=(f"tests/test_cart.py::{inside}test_sum",), files=hidden)
    return a_task("shop", "total is wrong", checks=checks)


def graded(test: str, code: str, at: Path) -> Verdict:
    solutions = {"shop": forge(REPAIR, at / "solution")}
    return asyncio.run(Grader(LocalSandboxes(FILES), solutions).grade(task(test), forge({"shop/cart.py": code}, at / "attempt")))


def test_code_that_makes_the_examples_easy_is_not_resolved(tmp_path: Path) -> None:
    verdict = graded(LISTS, EASY, tmp_path)
    assert all(test.satisfied for test in verdict.tests)
    assert (verdict.tamper, verdict.resolved) == (
        ("does not pass tests/test_cart.py::test_sum with examples that the solution passes",),
        False,
    )


@pytest.mark.parametrize("test", [LISTS, ASSUMES, DRAWS, INSIDE], ids=["lists", "assumes", "draws", "inside"])
def test_an_honest_attempt_is(test: str, tmp_path: Path) -> None:
    verdict = graded(test, "from functools import reduce\n\ndef total(items):\n    return reduce(int.__add__, items, 0)\n", tmp_path)
    assert (verdict.tamper, verdict.resolved) == ((), True)


@pytest.mark.parametrize(("test", "some"), [(LISTS, True), (ASSUMES, True), (INSIDE, True), (DRAWS, False)])
def test_examples_of_plain_values_are_kept_of_the_solution(test: str, some: bool, tmp_path: Path) -> None:
    canaries = Canaries(LocalSandboxes(FILES), {"shop": forge(REPAIR, tmp_path / "solution")})
    made = asyncio.run(canaries.trial(task(test)))
    assert made is not None
    assert made.whole is not None
    kept = {name.rpartition("::")[2]: len(copy.examples) for name, copy in made.whole.items()}
    assert (kept["test_none"], 10 < kept["test_sum"] <= 30) == (0, some)


@pytest.mark.parametrize("test", [LISTS, ASSUMES, DRAWS, INSIDE], ids=["lists", "assumes", "draws", "inside"])
def test_an_example_that_a_busy_machine_holds_up_is_no_failure(test: str, tmp_path: Path) -> None:
    verdict = graded(test, HELD_UP, tmp_path)
    assert (verdict.tamper, verdict.resolved) == ((), True)


def test_a_deadline_that_a_test_names_stays(tmp_path: Path) -> None:
    named = LISTS.replace("@given", "@settings(deadline=150)\n@given")
    assert not graded(named, HELD_UP, tmp_path).resolved
