"""Which tests of a project can be relied on: those that pass in every order, under every hash seed, at every time, and quickly."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from patchgrad.errors import TaskError
from patchgrad.packages import ensure_site
from patchgrad.tasks.forge import Profile, profile
from patchgrad.tasks.forge.clocks import by_the_clock, of_a_day
from patchgrad.tasks.projects import Project
from patchgrad.tasks.running import LocalRunner, Run

PROJECT = Project("box", "1", "folder", "", "", ("box.py",), ("tests/",))
BOX = """def area(a, b):
    total = (
        a
        * b
    )
    return total


def never(value):
    return value
"""
SUITE = """import datetime
import os
import time

import box
import pytest

SEEN = []
AGAIN = os.path.exists(NOTE)
open(NOTE, "w").close()


def test_area():
    assert box.area(2, 3) == 6


def test_first():
    SEEN.append(1)


def test_after_first():
    assert SEEN


def test_by_hash():
    assert hash("a") == HASH_OF_A


def test_at_the_first_time_only():
    assert not AGAIN


def test_by_the_clock():
    began = time.perf_counter()
    box.area(2, 3)
    assert time.perf_counter() - began < 60


def test_slow():
    time.sleep(1.1)


def test_that_fails():
    assert 0


@pytest.mark.skip
def test_skipped():
    pass


@pytest.mark.parametrize("value", [datetime.date.today()], ids=str)
def test_of_a_day(value):
    pass


@pytest.mark.parametrize("value", [str(os.getpid())])
def test_with_another_id_in_each_run(value):
    pass
"""


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    made = LocalRunner(ensure_site())
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profile")


def profiled(runner: LocalRunner, files: dict[str, str], kept: Path | None = None) -> Profile:
    return asyncio.run(profile(PROJECT, {name: text.encode() for name, text in files.items()}, runner, kept))


@pytest.fixture(scope="module")
def found(runner: LocalRunner, folder: Path) -> Profile:
    first_seed = subprocess.run(
        [sys.executable, "-c", "print(hash('a'))"], env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True, check=True
    )
    suite = SUITE.replace("NOTE", repr(str(folder / "note"))).replace("HASH_OF_A", first_seed.stdout.strip())
    return profiled(runner, {"box.py": BOX, "tests/test_box.py": suite, "tests/test_no.py": "1 / 0\n"}, folder / "kept.json")


def test_what_passes_always_and_quickly_is_relied_on_and_nothing_else(found: Profile) -> None:
    assert set(found.tests) == {"tests/test_box.py::test_area", "tests/test_box.py::test_first"}


def test_what_is_left_out_is_counted_by_reason(found: Profile) -> None:
    different = 1  # its id in the first run; those of later ones are not asked for
    counted = {"flaky": 3, "slow": 1, "by the clock": 1, "of a day": 1, "failed": 1, "skipped": 1, "another id in another run": different}
    assert found.left_out == counted | {"not collected": 1}


CLOCKS = b"""
import time
import timeit as t
from time import monotonic as now
from freezegun import freeze_time


class TestSpeed:
    def test_twice(self):
        began = now()
        assert now() - began < 1

    class TestInner:
        def test_timed(self):
            assert t.timeit(list) < 1


async def test_twice():
    began = time.perf_counter()
    assert time.perf_counter() - began < 1


def test_once():
    assert box.stamp() <= time.time()


def test_sleeps():
    time.sleep(0.1)
    time.sleep(0.1)


def test_of_another():
    assert box.time.time() == box.time.time()


def test_thing_called_time(time):
    assert time.hour() == time.hour()
"""


def test_a_test_judges_by_the_clock_if_it_reads_one_twice_or_has_timeit_do_so() -> None:
    assert by_the_clock(CLOCKS) == {"TestSpeed::test_twice", "TestSpeed::TestInner::test_timed", "test_twice"}
    assert by_the_clock(b"def test_twice(:") == by_the_clock(b"\0") == frozenset()


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("test_a.py::test_text[case7-2026-11-05]", True),
        ("test_a.py::test_text[5.11.2026 10:30]", True),
        ("test_a.py::test_text[log-20261105.txt]", True),
        ("test_a.py::test_text[2026-11-06]", False),
        ("test_a.py::test_text[5-11]", False),
        ("test_2026_11_5.py::test_text", False),
    ],
)
def test_an_id_that_names_the_day_in_numbers_is_of_that_day(test: str, told: bool) -> None:
    assert of_a_day(test, date(2026, 11, 5)) == told


def test_a_test_file_that_does_not_import_is_named(found: Profile) -> None:
    assert found.broken == {"tests/test_no.py": "ZeroDivisionError: division by zero"}


def test_a_file_takes_as_long_as_all_that_is_in_it(found: Profile) -> None:
    assert found.files["tests/test_box.py"] > 1.1 > sum(found.tests.values())


def test_a_line_of_a_long_statement_is_covered_by_what_runs_its_beginning(found: Profile) -> None:
    area = {"tests/test_box.py::test_area"}
    assert found.covering("box.py", 6, 6, 2) == area
    assert found.covering("box.py", 5, 5, 2) == area, "the closing bracket is in no trace"
    assert found.covering("box.py", 10, 10, 10) == set()
    assert found.covering("another.py", 1, 1, 1) == set()


def test_the_result_is_kept(found: Profile, folder: Path) -> None:
    async def nothing(*_: object, **__: object) -> Run:
        raise AssertionError("nothing had to be run")

    assert asyncio.run(profile(PROJECT, {}, nothing, folder / "kept.json")) == found


@pytest.mark.parametrize(
    ("suite", "says"),
    [
        ("import nothing_of_that_name\n", "No test of box-1 passes 5 times in 5 orders: .*No module named 'nothing_of_that_name'"),
        ("def test_red():\n    assert 0, 'red at all times'\n", "most often it is 'red at all times"),
        ("import os\nos._exit(0)\n", "do not come to an end .died"),
    ],
)
def test_a_suite_that_is_of_no_use_says_why(runner: LocalRunner, suite: str, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        profiled(runner, {"box.py": BOX, "tests/test_box.py": suite})
