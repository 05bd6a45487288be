"""What an demonstrator knows of a task: of a generated one from its tags, of one planted in a package from the patch that planted it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchgrad.errors import TaskError
from patchgrad.runs.demonstrations.demonstrator import drill, look
from patchgrad.runs.demonstrations.edits import line_edit
from patchgrad.runs.demonstrations.known_bugs import PLANTED, Known, known, ordinary_lines, placed, teachable, wrong_lines
from patchgrad.tasks.archive import pack, store
from patchgrad.tasks.synthetic import synthetic_tasks
from patchgrad.values import Checks, Task

SOURCE = "def low(a, b):\n    return a < b\n\n\ndef high(a, b):\n    return a > b\n"
TESTS = "def test_high():\n    assert high(2, 1)\n"
PATCH = """--- a/shop/till.py
+++ b/shop/till.py
@@ -5,2 +5,2 @@
 def high(a, b):
-    return a > b
+    return a < b
--- a/tests/test_till.py
+++ b/tests/test_till.py
@@ -1,2 +1,0 @@
-def test_high():
-    assert high(2, 1)
"""


@pytest.fixture
def planted(tmp_path: Path) -> Task:
    repository = replace(store(tmp_path, pack({"shop/till.py": SOURCE.encode(), "tests/test_till.py": TESTS.encode()})), patch=PATCH)
    tags = {"file": "shop/till.py", "line": "6", "function": "high"}
    return Task("planted", "high(1, 2) gives True.\nopen till.py 6\n", repository, Checks((), ()), tags=tags)


def test_of_a_planted_task_the_patch_tells_the_line_and_the_issue_where_to_look(planted: Task) -> None:
    found = known(planted)
    assert found == Known(
        SOURCE.replace(">", "<"), "open till.py 6", 6, "    return a < b", "    return a > b", "high", "shop/till.py", PLANTED
    )
    assert found.line == 6
    assert line_edit(found.source, 6, found.fixed, window=5).command() == 'replace " < " " > "'


def test_practice_keeps_the_place_and_has_other_words(planted: Task) -> None:
    for practice in (drill(planted), look(planted, 0), look(planted, 1)):
        assert "gives" not in practice.instruction
        assert known(practice) == known(planted)
        assert practice.environment_digest() == planted.environment_digest(), "so that what one was answered the others are"


def test_each_look_at_a_task_has_words_of_its_own(planted: Task) -> None:
    looks = [look(planted, number) for number in range(5)]
    assert len({task.instruction for task in looks}) == len({task.id for task in looks}) == 5
    assert look(planted, 3) == looks[3]


def test_of_a_generated_task_its_tags_tell(tmp_path: Path) -> None:
    (task,) = synthetic_tasks(1, 3, False, tmp_path, (1,), ("op_swap",))
    found = known(task)
    assert found.broken == task.tags["broken_line"] in found.source.splitlines()[found.begins - 1 :]
    assert found.place == task.instruction.rstrip().splitlines()[-1]


def test_a_task_of_two_lines_is_none_to_show_and_one_without_a_place_is_to_be_searched_for(planted: Task) -> None:
    two = replace(
        planted, repository=replace(planted.repository, patch=PATCH.replace("+    return a < b\n", "+    return a < b\n+    # more\n"))
    )
    placeless = replace(planted, instruction="high(1, 2) gives True.")
    assert teachable(planted)
    assert not teachable(two)
    with pytest.raises(TaskError, match="cannot be shown to work on"):
        known(two)
    assert teachable(placeless)
    assert not placed(placeless)
    assert known(placeless) == replace(known(planted), place="")


def test_a_wrong_line_that_packages_have_of_themselves_tells_of_no_bug(planted: Task) -> None:
    assert wrong_lines([planted]) == {"return a < b"}
    assert ordinary_lines([planted]) == {"def low(a, b):", "return a < b", "def high(a, b):", "return a > b", ""} | {
        line.strip() for line in TESTS.splitlines()
    }
