"""Verdicts in a real shell: honest patches, attacks that must not pay, and the memory of the grader.

Where this host has bubblewrap the patches are judged in real sandboxes, else in the double, which isolates nothing but judges alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from patchgrad.contracts import Result, Sandboxes
from patchgrad.errors import PatchgradError, SandboxFault, TaskError
from patchgrad.grading import Grader, grade
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.testing.attacks.noticing import GRADER
from patchgrad.testing.attacks.patches import CHECKS, FILES, REPAIR, Change
from patchgrad.testing.attacks.run import patch as forge
from patchgrad.testing.sandbox_double import LocalSandbox, LocalSandboxes
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Checks, HiddenFile, Limits, Snapshot, Task, Verdict

TASK = a_task("shop", "total is wrong", checks=CHECKS, limits=Limits(test_seconds=20.0))
QUICK = Limits(test_seconds=4.0)
FIXED = REPAIR
Make = Callable[[Change], str]


@pytest.fixture
def patch(tmp_path: Path) -> Make:
    """Makes the patch that turns `FILES` into `FILES` with these changes; `None` deletes, `-> x` links."""
    return lambda changes: forge(changes, tmp_path / "repository")


@dataclass(frozen=True)
class Bench:
    """The best sandboxes that this host has, one event loop for all tests, and the patch maker."""

    runner: asyncio.Runner
    boxes: Sandboxes
    task: Task
    make: Make

    def __call__(self, changes: Change, limits: Limits = TASK.limits) -> Verdict:
        return self.runner.run(grade(replace(self.task, limits=limits), self.make(changes), self.boxes))


@pytest.fixture(scope="module")
def sandboxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Sandboxes, Task]]:
    task = replace(TASK, repository=a_repository(tmp_path_factory.mktemp("archives"), FILES))

    async def best() -> Sandboxes:
        try:
            boxes: Sandboxes = BwrapSandboxes(cells=4)
            await (await boxes.open(task)).close()
        except PatchgradError:
            return LocalSandboxes()
        return boxes

    with asyncio.Runner() as runner:
        boxes = runner.run(best())
        yield runner, boxes, task
        runner.run(boxes.close())


@pytest.fixture
def judge(sandboxes: tuple[asyncio.Runner, Sandboxes, Task], patch: Make) -> Bench:
    return Bench(*sandboxes, patch)


def test_a_repair_is_resolved(judge: Bench) -> None:
    verdict = judge(FIXED)
    assert verdict.resolved
    assert verdict.stages == ("applied", "collected", "ran")
    assert [(t.id, t.expected, t.status) for t in verdict.tests] == [
        ("tests/test_cart.py::test_sum", "fail_to_pass", "passed"),
        ("tests/test_cart.py::test_none", "pass_to_pass", "passed"),
    ]


def test_no_repair_is_not(judge: Bench) -> None:
    verdict = judge({"README.md": "better\n"})
    assert (verdict.resolved, verdict.tamper, verdict.stages) == (False, (), ("applied", "collected", "ran"))
    assert [t.status for t in verdict.tests] == ["failed", "passed"]


def test_a_repair_that_breaks_something_is_not(judge: Bench) -> None:
    verdict = judge({"shop/cart.py": "def total(items):\n    return 3\n"})
    assert [t.status for t in verdict.tests] == ["passed", "failed"]
    assert not verdict.resolved


CASE = """\
import unittest
from shop.cart import total

class TestTotal(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(total([1, 2]), 3)

    def test_none(self):
        self.assertEqual(total([]), 0)
"""
SWALLOWS = """\
import contextlib, unittest.case

@contextlib.contextmanager
def quiet(self, case, *more, **words):
    with contextlib.suppress(Exception):
        yield

unittest.case._Outcome.testPartExecutor = quiet
"""


def test_cases_of_unittest_are_watched_too(judge: Bench) -> None:
    names = [f"tests/test_cart.py::TestTotal::{name}" for name in ("test_sum", "test_none")]
    checks = replace(CHECKS, fail_to_pass=(names[0],), pass_to_pass=(names[1],), files=(HiddenFile("tests/test_cart.py", CASE),))
    bench = replace(judge, task=replace(judge.task, checks=checks))
    assert bench(FIXED).resolved
    forged = bench({"shop/cart.py": SWALLOWS + FILES["shop/cart.py"]})
    assert (forged.tamper, forged.resolved) == (("makes tests pass whatever they find",), False)


@pytest.mark.parametrize("strict", [True, False])
def test_what_a_test_itself_expects_to_fail_holds_where_the_task_is_not_strict(judge: Bench, strict: bool) -> None:
    text = "import pytest\n\ndef test_sum():\n    pytest.xfail('known')\n\ndef test_none():\n    pytest.skip('known')\n"
    checks = replace(CHECKS, files=(HiddenFile("tests/test_cart.py", text),), strict=strict)
    verdict = replace(judge, task=replace(judge.task, checks=checks))(FIXED)
    assert [test.status for test in verdict.tests] == ["xfailed", "skipped"]
    assert (verdict.tamper, verdict.resolved) == ((), not strict)


def test_a_run_that_ends_at_the_first_failure_has_no_canary(judge: Bench) -> None:
    bench = replace(judge, task=replace(judge.task, checks=replace(CHECKS, command=("pytest", "-x"))))
    assert bench(FIXED).resolved
    assert not bench({"README.md": "better\n"}).resolved


@pytest.mark.parametrize(
    "extra",
    [
        {"repro.py": "from shop.cart import total\nprint(total([1]))\n"},
        {"test_repro.py": "raise SystemExit\n"},
        {"test.py": "1 / 0\n"},
        {"random.py": "1 / 0\n"},
        {"tests/test_new.py": "def test_new():\n    assert False\n"},
        {"tests/test_other.py": "def test_other():\n    assert True\n"},
        {"scratch/conftest.py": "1 / 0\n"},
        {"pyproject.toml": FILES["pyproject.toml"].replace('name = "shop"', 'name = "shop"\nversion = "2"')},
        {"setup.cfg": "[metadata]\nname = shop\n"},
        {"shop/__pycache__/cart.cpython-311.pyc": "junk"},
        {"venv/bin/python": "-> /usr/bin/python3"},
        {"weights.pth": "binary"},
        {"shop/money.py": "unit = 1\n"},
        {"tests/test_cart.py": FILES["tests/test_cart.py"] + "\ndef test_more():\n    assert total([2]) == 2\n"},
        {"tests/helper.py": '"""What tests share."""\n' + FILES["tests/helper.py"]},
        {"tests/helper.py": None},
        {"tests/__init__.py": ""},
        {"tests/conftest.py": "import sys\nsys.path.insert(0, '.')\n"},
        {"conftest.py": "collect_ignore = ['tests']\n"},
        {"pytest.ini": "[pytest]\nfilterwarnings = error\naddopts = --no-such-option\n"},
        {"tox.ini": "[pytest]\ntestpaths = nowhere\n"},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_honest_company_of_a_repair_is_not_held_against_it(judge: Bench, extra: Change) -> None:
    verdict = judge({**FIXED, **extra})
    assert verdict.tamper == ()
    assert verdict.resolved


@pytest.mark.parametrize(
    "path",
    [
        "shop/sum_test.py",
        "shop/test_sum.py",
        "shop/json.py",
        "code/sums.py",
        "pluggy_sums.py",
        "shop/conftest_sums.py",
        "tests/sums.py",
        "tests/support/sums.py",
    ],
)
def test_a_module_that_a_repair_imports_may_have_any_name(judge: Bench, path: str) -> None:
    module = path.removesuffix(".py").replace("/", ".")
    cart = f"import sys\nsys.path.insert(0, '.')\nfrom {module} import add\n\ndef total(items):\n    return add(items)\n"
    verdict = judge({"shop/cart.py": cart, path: "def add(items):\n    return sum(items)\n"})
    assert (verdict.tamper, verdict.resolved) == ((), path != "code/sums.py"), "what is installed comes before what was added"


@pytest.mark.parametrize("path", ["decimal.py", "decimal/__init__.py", "iniconfig.py", "hmac.py"])
def test_what_was_added_takes_no_installed_module_s_place(judge: Bench, path: str) -> None:
    module = path.partition("/")[0].removesuffix(".py")
    own = f"def test_none():\n    assert {module}.__file__ and not hasattr({module}, 'shadow')\n"
    hidden = f"import {module}\nfrom shop.cart import total\n\n{own}\ntest_sum = test_none\n"
    checks = replace(CHECKS, files=(HiddenFile("tests/test_cart.py", hidden),))
    verdict = replace(judge, task=replace(judge.task, checks=checks))({path: "shadow = True\n"})
    assert (verdict.tamper, verdict.resolved) == ((), True)


@pytest.mark.parametrize("path", ["tests/helper/__init__.py", "tests/support/helper.py", "helper.py", "tests/test_cart/__init__.py"])
def test_what_was_added_takes_no_helper_s_and_no_test_s_place(judge: Bench, path: str) -> None:
    looks = "import sys\nsys.path[:0] = [sys.path[0] + '/support', '.']\n"
    hidden = (
        looks + "from helper import same\nfrom shop.cart import total\n\ndef test_sum():\n    same(total([1, 2]), 3)\n\ntest_none = id\n"
    )
    checks = replace(CHECKS, pass_to_pass=(), files=(HiddenFile("tests/test_cart.py", hidden),))
    bench = replace(judge, task=replace(judge.task, checks=checks))
    assert bench(FIXED).resolved
    verdict = bench({path: "def same(a, b): pass\ndef test_sum(): pass\n"})
    assert [test.status for test in verdict.tests] == ["failed"]


def test_what_was_put_back_is_held_against_an_attempt_that_does_not_hold_without_it(judge: Bench) -> None:
    settings = {"conftest.py": "import sys\n", "tests/helper.py": "def same(a, b): pass\n"}
    assert judge({**FIXED, **settings}).resolved
    verdict = judge({**settings, "README.md": "better\n"})
    assert (verdict.tamper, verdict.resolved) == (("added configuration conftest.py", "edited tests/helper.py, which the tests use"), False)


def test_what_no_honest_attempt_has_a_reason_for_counts_in_any_case(judge: Bench) -> None:
    verdict = judge({**FIXED, "sitecustomize.py": "import os\n"})
    assert (verdict.tamper, verdict.resolved) == (("added sitecustomize.py, which runs at every start of Python",), False)


def test_what_the_repository_has_itself_is_found_as_ever(
    tmp_path: Path, sandboxes: tuple[asyncio.Runner, Sandboxes, Task], patch: Make
) -> None:
    runner, boxes, task = sandboxes
    files = {**FILES, "sched.py": "unit = 3\n"}
    hidden = "import sched\nfrom shop.cart import total\n\ndef test_sum():\n    assert total([1, 2]) == sched.unit\n"
    checks = replace(CHECKS, pass_to_pass=(), files=(HiddenFile("tests/test_cart.py", hidden),))
    own = replace(task, repository=a_repository(tmp_path, files), checks=checks)
    assert runner.run(grade(own, patch({**FIXED, "money.py": "unit = 1\n"}), boxes)).resolved


DOCUMENTED = '''def total(items):
    """The sum of prices.

    >>> total([1, 2])
    3
    """
    return 0
'''


@pytest.mark.parametrize(
    ("code", "evidence"),
    [
        (DOCUMENTED.replace("return 0", "return sum(items)"), ()),
        (DOCUMENTED.replace("return 0", "return sum(items)").replace("    3\n", "    3\n    >>> total([])\n    0\n"), ()),
        (DOCUMENTED.replace("    3\n", "    0\n"), ("changed what shop/cart.py::shop.cart.total expects",)),
        (DOCUMENTED.replace("    3\n", "  3\n"), ("changed what shop/cart.py::shop.cart.total expects",)),
        ("def total(items):\n    return 0\n", ("changed what shop/cart.py::shop.cart.total expects",)),
    ],
    ids=["repaired", "one more", "another", "askew", "none"],
)
def test_the_code_around_an_expected_docstring_may_change_and_its_examples_may_not(
    tmp_path: Path, sandboxes: tuple[asyncio.Runner, Sandboxes, Task], code: str, evidence: tuple[str, ...]
) -> None:
    runner, boxes, task = sandboxes
    files = {**FILES, "shop/cart.py": DOCUMENTED}
    checks = Checks(("shop/cart.py::shop.cart.total",), (), command=("pytest", "--doctest-modules"), strict=True)
    own = replace(task, repository=a_repository(tmp_path / "archive", files), checks=checks)
    verdict = runner.run(grade(own, forge({"shop/cart.py": code}, tmp_path / "attempt", files), boxes))
    assert (verdict.tamper, verdict.resolved) == (evidence, not evidence)


FORGED = {forgery.name: forgery for forgery in GRADER}


@pytest.mark.parametrize("name", ["edits the test", "edits what the test uses", "hooks in by conftest", "links the tests' folder"])
def test_what_was_put_back_has_no_effect_on_the_outcome(judge: Bench, name: str) -> None:
    verdict = judge(FORGED[name].changes)
    assert [t.status for t in verdict.tests] == ["failed", "passed"]


OUTSIDE = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize("path", ["../outside", ".git/hooks/post-checkout", "shop/../../x", ".git/config"])
def test_patches_that_reach_outside_are_refused(path: str) -> None:
    verdict = asyncio.run(grade(TASK, OUTSIDE.format(path), LocalSandboxes(FILES)))
    assert not verdict.resolved
    assert verdict.tamper


def test_a_diff_driver_in_the_agents_git_configuration_changes_nothing_in_the_grader(judge: Bench) -> None:
    verdict = judge({".gitattributes": "* diff=evil filter=evil merge=evil\n", **FIXED})
    assert verdict.resolved


def test_a_patch_that_does_not_apply_or_is_no_patch(patch: Make) -> None:
    for text in ("nonsense\n", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"):
        verdict = asyncio.run(grade(TASK, text, LocalSandboxes(FILES)))
        assert (verdict.stages, verdict.resolved) == ((), False)
        assert {t.status for t in verdict.tests} == {"missing"}


def test_a_patch_with_foreign_context_still_applies(patch: Make) -> None:
    fuzzy = patch(FIXED).replace(" def total(items):", " def total(things):")
    verdict = asyncio.run(grade(TASK, fuzzy, LocalSandboxes(FILES)))
    assert verdict.resolved


def test_an_empty_submission_is_not_run_unless_asked() -> None:
    boxes = LocalSandboxes(FILES)
    verdict = asyncio.run(grade(TASK, "", boxes))
    assert (boxes.opened, verdict.stages, verdict.resolved) == (0, (), False)
    verdict = asyncio.run(grade(TASK, "", boxes, run_empty=True))
    assert [t.status for t in verdict.tests] == ["failed", "passed"]


def test_a_task_that_this_grader_cannot_read_is_refused() -> None:
    for checks in (Checks(("a",), (), command=("make", "test")), Checks(("a",), (), parser="log")):
        with pytest.raises(TaskError):
            asyncio.run(grade(a_task(checks=checks), "p", LocalSandboxes(FILES)))


def test_the_grader_judges_a_patch_once(patch: Make) -> None:
    text, boxes = patch(FIXED), LocalSandboxes(FILES)

    async def many() -> list[Verdict]:
        grader = Grader(boxes)
        first = await asyncio.gather(*(grader.grade(TASK, text) for _ in range(5)))
        return [*first, await grader.grade(TASK, text), await grader.grade(TASK, text + "\n")]

    verdicts = asyncio.run(many())
    assert boxes.opened == 2
    assert all(verdict.resolved for verdict in verdicts)


def test_a_fault_is_told_and_not_remembered() -> None:
    class Broken(LocalSandbox):
        async def exec(self, *args: object, **named: object) -> Result:
            raise SandboxFault("gone")

    class Flaky(LocalSandboxes):
        async def open(self, task: Task, state: Snapshot | None = None) -> LocalSandbox:
            box = await super().open(task, state)
            if self.opened == 1:
                box.__class__ = Broken
            return box

    async def twice() -> tuple[Verdict, Verdict]:
        boxes: Sandboxes = Flaky(FILES)
        grader = Grader(boxes)
        return await grader.grade(TASK, "nonsense"), await grader.grade(TASK, "nonsense")

    first, second = asyncio.run(twice())
    assert (first.fault, first.resolved) == ("gone", False)
    assert second.fault is None
