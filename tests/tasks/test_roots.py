"""Where a repository's modules are imported from: as pytest is told, as the build is told, or as the tests show; one project or several."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tasks.shapes import write

from patchgrad.packages import ensure_site
from patchgrad.tasks.projects import Project, open_project
from patchgrad.tasks.projects.furnish import alone, prepare
from patchgrad.tasks.projects.roots import inside
from patchgrad.tasks.running import LocalRunner

AREA = "def area(a):\n    return a * a\n"


def suite_of(module: str) -> str:
    return f"from {module} import area\n\n\ndef test_area():\n    assert area(2) == 4\n"


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    made = LocalRunner(ensure_site())
    yield made
    made.close()


def opened(folder: Path, files: dict[str, str]) -> tuple[Project, dict[str, bytes]]:
    return open_project(str(write(folder, files)), folder)


def outcomes(runner: LocalRunner, project: Project, files: dict[str, bytes]) -> dict[str, str]:
    tree = prepare(project, files)
    suites = [path for path in tree if project.is_suite(path)]
    return dict(asyncio.run(runner(tree, suites, places=project.tests)).outcomes)


BOX = {"code/py/box/__init__.py": "", "code/py/box/core.py": AREA, "tests/test_core.py": suite_of("box.core")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["code/py"]\n'),
        ("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = "./code/py/ ."\n'),
        ("pyproject.toml", '[tool.pytest]\npythonpath = ["code/py"]\n'),
        ("tox.ini", "[pytest]\npythonpath = code/py\n"),
        ("pyproject.toml", '[tool.setuptools.package-dir]\n"" = "code/py"\n'),
        ("pyproject.toml", '[tool.setuptools.package-dir]\nbox = "code/py/box"\n'),
        ("pyproject.toml", '[tool.setuptools.packages.find]\nwhere = ["code/py"]\n'),
        ("pyproject.toml", '[[tool.poetry.packages]]\ninclude = "box"\nfrom = "code/py"\n'),
        ("pyproject.toml", '[tool.hatch.build.targets.wheel]\npackages = ["code/py/box"]\n'),
        ("pyproject.toml", '[tool.hatch.build.targets.wheel.sources]\n"code/py" = ""\n'),
        ("pyproject.toml", '[tool.pdm.build]\npackage-dir = "code/py"\n'),
        ("pyproject.toml", '[tool.uv.build-backend]\nmodule-root = "code/py"\n'),
        ("pyproject.toml", '[tool.maturin]\npython-source = "code/py"\n'),
        ("setup.cfg", "[options]\npackage_dir =\n    = code/py\n"),
        ("setup.cfg", "[options.packages.find]\nwhere = code/py\n"),
        ("setup.py", "setup(name='box', package_dir={'': 'code/py'})\n"),
        ("setup.py", "where = 'code/py'\nsetup(name='box', packages=find_packages(where))\n"),
        ("README", "nothing says it, and the tests show it"),
    ],
)
def test_modules_are_found_where_they_are_said_to_lie_or_where_the_tests_show(tmp_path: Path, name: str, text: str) -> None:
    project, _ = opened(tmp_path, {**BOX, name: text})
    assert (project.sources, project.paths) == (("code/py/box/",), ("code/py",))


def test_and_the_tests_find_them_there(runner: LocalRunner, tmp_path: Path) -> None:
    project, files = opened(tmp_path, BOX)
    assert outcomes(runner, project, files) == {"tests/test_core.py::test_area": "passed"}


MONO = {
    "packages/alpha/pyproject.toml": '[project]\nname = "alpha"\ndependencies = ["beta", "six>=1"]\n',
    "packages/alpha/src/alpha/core.py": "from beta import core\n\n\ndef area(a):\n    return core.area(a)\n",
    "packages/alpha/tests/test_alpha.py": suite_of("alpha.core"),
    "packages/beta/setup.py": "setup(name='beta', package_dir={'': 'lib'}, tests_require=['mock'])\n",
    "packages/beta/lib/beta/__init__.py": "",
    "packages/beta/lib/beta/core.py": AREA,
    "packages/beta/tests/test_beta.py": suite_of("beta.core"),
    "packages/alpha/src/alpha/__init__.py": "",
    "pyproject.toml": '[tool.uv.workspace]\nmembers = ["packages/*"]\n',
    "examples/gamma/pyproject.toml": '[project]\nname = "gamma"\ndependencies = ["numpy"]\n',
    "examples/gamma/gamma/__init__.py": "",
}


def test_a_repository_of_several_projects_has_the_modules_and_the_needs_of_all_that_its_tests_use(tmp_path: Path) -> None:
    project, _ = opened(tmp_path, MONO)
    assert project.paths == ("packages/alpha/src", "packages/beta/lib")
    assert {"packages/alpha/src/alpha/", "packages/beta/lib/beta/"} == {s for s in project.sources if s.startswith("packages/")}
    assert (project.requires, project.extras) == (("six>=1",), ("mock",)), "beta is the repository's own, and not somebody's on an index"


def test_the_tests_of_all_of_them_run_together(runner: LocalRunner, tmp_path: Path) -> None:
    project, files = opened(tmp_path, MONO)
    told = outcomes(runner, project, files)
    assert told == {f"packages/{name}/tests/test_{name}.py::test_area": "passed" for name in ("alpha", "beta")}


def test_a_configuration_of_one_project_does_not_take_the_place_of_the_trees_own(runner: LocalRunner, tmp_path: Path) -> None:
    config = '[tool.pytest.ini_options]\naddopts = "--no-such-option"\npythonpath = ["helpers"]\n'
    files = {path: text for path, text in MONO.items() if "beta" not in path}
    files |= {"packages/alpha/src/alpha/core.py": AREA, "packages/alpha/helpers/aid.py": "", "packages/alpha/pyproject.toml": config}
    project, found = opened(tmp_path, files)
    assert project.paths == ("packages/alpha/src", "packages/alpha/helpers")
    assert outcomes(runner, project, found) == {"packages/alpha/tests/test_alpha.py::test_area": "passed"}
    assert alone(found, ["packages/alpha/tests/test_alpha.py"]) == ("-c", "pytest.ini")
    assert alone(found, ["tests/test_top.py"]) == ()


@pytest.mark.parametrize("vendored", ["box/_vendor/__init__.py", "docs/six.py", "box/six/core.py"])
def test_what_is_no_place_of_modules_is_not_taken_for_one(tmp_path: Path, vendored: str) -> None:
    files = {
        "box/__init__.py": "",
        "box/core.py": AREA,
        vendored: "",
        "box/_vendor/six.py": "",
        "tests/test_a.py": "import six, json, core\n",
    }
    if "_vendor/__init__" not in vendored:
        del files["box/_vendor/six.py"]
    project, _ = opened(tmp_path, files)
    assert project.paths == ()


def test_of_two_places_the_one_nearest_to_the_test_is_taken_and_none_where_both_are_as_near(tmp_path: Path) -> None:
    twice = {f"work/{name}/code/tool.py": AREA for name in ("a", "b")}
    near, _ = opened(tmp_path / "near", {**twice, "work/a/tests/test_tool.py": suite_of("tool")})
    assert near.paths == ("work/a/code",)
    far, _ = opened(tmp_path / "far", {**twice, "tests/test_tool.py": suite_of("tool")})
    assert far.paths == ()


def test_a_path_outside_of_the_tree_or_of_nothing_is_none() -> None:
    files = ["src/box.py", "lib/a b/box.py", ".ci/tool.py"]
    given = ["../src", "/src", "~/src", "nothing", ".", "", "src/..", "./src/", "src", "lib/a b", ".ci"]
    assert inside(given, files) == ("src", "lib/a b", ".ci")
    assert inside(["src"], ["packages/alpha/src/a.py"], "packages/alpha") == ("packages/alpha/src",)


def test_a_path_with_a_blank_is_one_path(runner: LocalRunner, tmp_path: Path) -> None:
    files = {"my code/box.py": AREA, "tests/test_box.py": suite_of("box"), "pyproject.toml": '[tool.pytest]\npythonpath = ["my code"]\n'}
    project, found = opened(tmp_path, files)
    assert outcomes(runner, project, found) == {"tests/test_box.py::test_area": "passed"}
