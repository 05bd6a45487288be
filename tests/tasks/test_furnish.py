"""What a project's tests need is found by running them, and nothing is installed on a guess."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tasks.shapes import write

from patchgrad.errors import TaskError
from patchgrad.packages import PINS
from patchgrad.tasks.projects import open_project
from patchgrad.tasks.projects.furnish import SECONDS, Furnished, furnish
from patchgrad.tasks.running import LocalRunner, Runner

USES_SIX = {
    "box.py": "def area(a, b):\n    return a * b\n",
    "tests/test_box.py": "import box\n\n\ndef test_area():\n    assert box.area(2, 3) == 6\n",
    "tests/test_six.py": "import six\n\n\ndef test_six():\n    assert six.PY3\n",
}
NOT_KNOWN = "import a_module_that_nobody_has\n"


@pytest.fixture
def furnished(tmp_path: Path) -> Callable[..., Furnished]:
    """Furnishes a small project."""

    def call(files: dict[str, str], seconds: float = SECONDS) -> Furnished:
        made: dict[Path, LocalRunner] = {}

        def runner(site: Path) -> Runner:
            return made.setdefault(site, LocalRunner(site))

        project, tree = open_project(str(write(tmp_path / "box", files)), tmp_path)
        try:
            return asyncio.run(furnish(project, tree, runner, seconds=seconds))
        finally:
            for one in made.values():
                one.close()

    return call


def test_a_module_that_the_project_states_for_tests_is_installed(furnished: Callable[..., Furnished]) -> None:
    found = furnished(USES_SIX | {"requirements-test.txt": "six==1.17.0\n", "tests/test_not.py": NOT_KNOWN})
    assert found.project.packages == ("six==1.17.0",)
    assert (found.site / "six.py").is_file()
    assert found.first.outcomes == {"tests/test_box.py::test_area": "passed", "tests/test_six.py::test_six": "passed"}
    assert found.missing == ("a_module_that_nobody_has",), "a name from a test alone could be anybody's"
    assert found.first.broken == ("tests/test_not.py",)


def test_what_is_needed_by_the_code_itself_is_there_at_once(furnished: Callable[..., Furnished]) -> None:
    about = '[project]\nname = "box"\nversion = "1"\ndependencies = ["six==1.17.0"]\n'
    found = furnished({**USES_SIX, "box.py": "import six\n" + USES_SIX["box.py"], "pyproject.toml": about})
    assert found.project.packages == ("six==1.17.0",)
    assert set(found.first.outcomes.values()) == {"passed"}


def test_a_project_that_needs_nothing_gets_nothing(furnished: Callable[..., Furnished]) -> None:
    found = furnished({name: text for name, text in USES_SIX.items() if "six" not in name} | {"requirements-test.txt": "six==1.17.0\n"})
    assert (found.project.packages, found.missing) == ((), ())
    assert {path.name for path in found.site.iterdir()} >= {pin.partition("==")[0] for pin in PINS if "pytest" in pin}
    assert not (found.site / "six.py").exists()


def test_one_that_cannot_be_had_leaves_its_tests_out_and_no_others(furnished: Callable[..., Furnished]) -> None:
    found = furnished(USES_SIX | {"requirements-test.txt": "six==1.17.0.99\n"})
    assert found.project.packages == ()
    assert found.missing == ("six",)
    assert found.first.outcomes == {"tests/test_box.py::test_area": "passed"}


def test_a_suite_without_end_is_refused(furnished: Callable[..., Furnished]) -> None:
    with pytest.raises(TaskError, match=r"tests of box-0 do not come to an end within 0\.5 seconds of work \(timeout\)"):
        furnished({**USES_SIX, "tests/test_six.py": "while True:\n    pass\n"}, seconds=0.5)
