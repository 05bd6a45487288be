"""Code under test that would rewrite, while tests run, what decides them; and tests that write beside themselves."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.grading.canaries import Canaries
from patchgrad.grading.grade import grade
from patchgrad.grading.guard import Guard
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Checks, HiddenFile, Task, Verdict

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

TEST = "from shop import total\nfrom tests.helper import same\n\n\ndef test_total():\n    same(total([1, 2]), 3)\n"
WON = "def test_total():\n    pass\n"
FILES = {
    "shop.py": "def total(prices):\n    return 0\n",
    "conftest.py": "import shop\n",
    "pyproject.toml": "[tool.pytest.ini_options]\n",
    "tests/__init__.py": "",
    "tests/helper.py": "def same(found, expected):\n    assert found == expected\n",
    "tests/golden.txt": "3\n",
    "tests/test_shop.py": TEST,
}
SOLUTION = """--- a/shop.py
+++ b/shop.py
@@ -1,2 +1,2 @@
 def total(prices):
-    return 0
+    return sum(prices)
"""
BESIDE = """import os, pathlib, shutil
from shop import total


def test_total():
    here = pathlib.Path(__file__).parent
    (here / "__pycache__").mkdir(exist_ok=True)
    (here / ".hypothesis").mkdir()
    (here / "out.txt").write_text("3\\n")
    os.replace(here / "out.txt", here.parent / "moved.txt")
    assert (here.parent / "moved.txt").read_text() == (here / "golden.txt").read_text()
    shutil.copytree(here, here / "copy", ignore=shutil.ignore_patterns("copy"))
    (here / "copy" / "golden.txt").write_text("4")
    shutil.rmtree(here / "copy")
    (here / "golden.txt").write_text("written anew")
    assert total([1, 2]) == 3
"""


def task(folder: Path, files: Mapping[str, str] = FILES, test: str = TEST) -> Task:
    checks = Checks(("tests/test_shop.py::test_total",), (), command=("pytest",), files=(HiddenFile("tests/test_shop.py", test),))
    return a_task(repository=a_repository(folder, {**FILES, **files}), checks=checks)


def patch(code: str) -> str:
    """A patch that adds this code to the end of `shop.py`; what it cannot do is no error."""
    added = ["try:", *(f"    {line}" for line in code.split("\n")), "except OSError:", "    pass"]
    head = f"--- a/shop.py\n+++ b/shop.py\n@@ -1,2 +1,{2 + len(added)} @@\n def total(prices):\n     return 0\n"
    return head + "".join(f"+{line}\n" for line in added)


def verdict(task: Task, submission: str) -> Verdict:
    async def judged() -> Verdict:
        backend = BwrapSandboxes(2)
        try:
            return await grade(task, submission, backend)
        finally:
            await backend.close()

    return asyncio.run(judged())


def test_what_is_sealed_are_tests_what_stands_beside_them_and_settings_above_them_but_no_source(tmp_path: Path) -> None:
    places = Guard(task(tmp_path)).places()
    assert {"tests", "tests/test_shop.py", "conftest.py", "tests/conftest.py", "pyproject.toml", "tests/pytest.ini"} <= set(places)
    assert not {"", "shop.py"} & set(places)


def test_code_and_settings_and_what_is_hidden_are_sealed_and_no_data_that_a_test_may_rewrite(tmp_path: Path) -> None:
    guard = Guard(task(tmp_path))
    assert [path for path in FILES if guard.seals(path)] == [path for path in FILES if path != "tests/golden.txt"]
    checks = replace(task(tmp_path).checks, files=(HiddenFile("tests/golden.txt", "3\n"),))
    assert Guard(replace(task(tmp_path), checks=checks)).seals("tests/golden.txt")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tests/test_shop.py", WON),
        ("tests/helper.py", "def same(found, expected): pass\n"),
        ("tests/__init__.py", "import sys, types\nsys.modules['tests.helper'] = types.SimpleNamespace(same=print)\n"),
    ],
)
def test_a_deciding_file_cannot_be_rewritten_by_a_process_of_the_code_under_test(tmp_path: Path, path: str, text: str) -> None:
    forging = f"import os\nif os.fork() == 0:\n    open('/testbed/{path}', 'w').write({text!r})\n    os._exit(0)\nos.wait()"
    found = verdict(task(tmp_path), patch(forging))
    assert found.stages
    assert not found.resolved


@pytest.mark.parametrize(
    "forging",
    [
        f"import os\nopen('/tmp/t', 'w').write({WON!r})\nos.system('mv -f /tmp/t /testbed/tests/test_shop.py')",
        f"import os\nos.system('cd /testbed; mv tests old; cp -r old tests')\nopen('/testbed/tests/test_shop.py', 'w').write({WON!r})",
        f"import os\nos.system('cp -r tests /tmp/t; rm -r tests; ln -s /tmp/t tests')\nopen('/tmp/t/test_shop.py', 'w').write({WON!r})",
    ],
)
def test_a_deciding_file_cannot_be_replaced_nor_the_folder_that_it_lies_in(tmp_path: Path, forging: str) -> None:
    found = verdict(task(tmp_path), patch(forging))
    assert found.stages
    assert not found.resolved


def test_tests_that_write_beside_themselves_go_on_working(tmp_path: Path) -> None:
    found = verdict(task(tmp_path, test=BESIDE), SOLUTION)
    assert found.resolved, found


def test_broken_tests_are_written_over_sealed_ones(tmp_path: Path) -> None:
    async def steps() -> tuple[tuple[str, ...], tuple[str, ...]]:
        backend, made = BwrapSandboxes(2), task(tmp_path)
        try:
            canaries = Canaries(backend, {made.id: SOLUTION})
            cheating = patch("class Equal(int):\n    __eq__ = lambda self, other: True\ntotal = lambda prices: Equal()")
            return await canaries.passed(made, SOLUTION), await canaries.passed(made, cheating)
        finally:
            await backend.close()

    honest, cheated = asyncio.run(steps())
    assert not honest
    assert cheated
