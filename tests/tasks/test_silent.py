"""Files that give no tests are counted and named, whatever keeps pytest from collecting them; and those of one name are kept apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.tasks.shapes import write

from patchgrad.packages import ensure_site
from patchgrad.tasks.forge.silent import Silent, count_tests, silent
from patchgrad.tasks.projects import open_project
from patchgrad.tasks.projects.furnish import prepare
from patchgrad.tasks.running import LocalRunner, Run

BOX = {"box.py": "def area(a):\n    return a * a\n"}
TWO = "import box\n\n\ndef test_one():\n    assert box.area(1) == 1\n\n\ndef test_two():\n    assert box.area(2) == 4\n"


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    made = LocalRunner(ensure_site())
    yield made
    made.close()


def run_of(runner: LocalRunner, folder: Path, files: Mapping[str, str]) -> tuple[Run, Silent]:
    """One run of all test files of a project, and what it did not tell of."""
    project, found = open_project(str(write(folder, {**BOX, **files})), folder)
    tree = prepare(project, found)
    suites = [path for path in tree if project.is_suite(path)]
    run = asyncio.run(runner(tree, suites, places=project.tests))
    return run, silent(run, tree, suites)


@pytest.mark.parametrize(
    ("files", "why", "lost"),
    [
        ({"tests/test_b.py": "import nothing_there\n" + TWO}, "ModuleNotFoundError: No module named 'nothing_there'", 2),
        ({"tests/test_b.py": "print 'old'\n\n\ndef test_old():\n    pass\n"}, "SyntaxError: ", 1),
        ({"tests/test_b.py": TWO + "\n\nassert box.area(3) == 8\n"}, "AssertionError: assert 9 == 8", 2),
        ({"tests/test_b.py": TWO + "\n\nopen(__file__ + '.txt')\n"}, "FileNotFoundError: ", 2),
    ],
)
def test_the_tests_of_a_file_that_cannot_be_collected_are_counted_and_the_file_is_named_with_the_reason(
    runner: LocalRunner, tmp_path: Path, files: dict[str, str], why: str, lost: int
) -> None:
    run, found = run_of(runner, tmp_path, {"tests/test_a.py": TWO, **files})
    assert {path: reason[: len(why)] for path, reason in found.broken.items()} == {"tests/test_b.py": why}
    assert "testbed" not in "".join(found.broken.values())
    assert found.uncounted == {"not collected": lost}
    assert len(run.outcomes) == 2


def test_a_file_of_which_a_class_cannot_be_collected_is_one_that_cannot(runner: LocalRunner, tmp_path: Path) -> None:
    bad = "import pytest\n\n\nclass TestBad:\n    @pytest.mark.parametrize('a', [1], ids=[object()])\n    def test_it(self, a): pass\n"
    _, found = run_of(runner, tmp_path, {"tests/test_a.py": TWO, "tests/test_b.py": f"{bad}\n\ndef test_fine():\n    pass\n"})
    assert list(found.broken) == ["tests/test_b.py"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (f"import pytest\n\npytest.importorskip('nothing_there')\n{TWO}", "could not import 'nothing_there'"),
        (f"import pytest\n\npytest.skip('not today', allow_module_level=True)\n{TWO}", "not today"),
        (f"__test__ = False\n{TWO}", "pytest finds no test in it"),
    ],
)
def test_a_file_that_skips_itself_is_counted_and_named_too(runner: LocalRunner, tmp_path: Path, source: str, why: str) -> None:
    _, found = run_of(runner, tmp_path, {"tests/test_a.py": TWO, "tests/test_b.py": source})
    assert (list(found.idle), found.uncounted) == (["tests/test_b.py"], {"in a file that gives none": 2})
    assert why in found.idle["tests/test_b.py"]
    assert not found.broken


def test_a_helper_with_a_tests_name_is_nothing_that_was_lost(runner: LocalRunner, tmp_path: Path) -> None:
    _, found = run_of(runner, tmp_path, {"tests/test_a.py": TWO, "tests/test_tools.py": "def helper():\n    pass\n"})
    assert found == Silent({}, {}, {})


def test_tests_are_counted_as_their_source_tells() -> None:
    source = b"""
import pytest

@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize(argnames="b", argvalues=(1, 2))
def test_six(a, b): ...

@pytest.mark.parametrize("a", range(9))
async def test_one(a): ...

@parametrize("a", [1, 2])
class TestBox:
    def test_two(self, a): ...
    class TestInner:
        def test_two(self): ...

class Helper:
    def test_nothing(self): ...

class BoxTest(Base):
    def test_one(self): ...
"""
    assert count_tests(source) == 6 + 1 + 4 + 1
    assert count_tests(b"print 'old'") == count_tests(b"\0") == 0


# --- how tests are imported ----------------------------------------------------------------------

TWINS = {"tests/one/test_box.py": TWO, "tests/two/test_box.py": TWO}


@pytest.mark.parametrize(
    "config",
    [
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib -ra --strict-markers"\n'},
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-ra", "--import-mode=importlib"]\n'},
        {"pyproject.toml": '[tool.pytest]\naddopts = ["--import-mode", "importlib"]\n'},
        {"pytest.toml": '[pytest]\naddopts = ["--import-mode=importlib"]\n'},
        {"setup.cfg": "[tool:pytest]\naddopts =\n    -ra\n    --import-mode importlib\n"},
        {"tox.ini": "[pytest]\naddopts = --import-mode=prepend --import-mode='importlib'\n"},
    ],
)
def test_two_test_files_of_one_name_are_collected_where_the_import_mode_allows_it(
    runner: LocalRunner, tmp_path: Path, config: dict[str, str]
) -> None:
    run, found = run_of(runner, tmp_path, {**TWINS, **config})
    assert set(run.outcomes.values()) == {"passed"}
    assert (len(run.outcomes), found.broken) == (4, {})


def test_where_it_does_not_the_second_one_is_named(runner: LocalRunner, tmp_path: Path) -> None:
    run, found = run_of(runner, tmp_path, TWINS)
    assert found.broken == {"tests/two/test_box.py": "import file mismatch"}
    assert (len(run.outcomes), found.uncounted) == (2, {"not collected": 2})
