"""Running a project's tests again and again: each run sees the tree that it was given, ends in time, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.packages import ensure_site
from patchgrad.sandboxes.linux.shell import ENVIRONMENT
from patchgrad.tasks.running import Asked, LocalRunner, Run
from patchgrad.tasks.running.runner import _Slot

GOOD = "def test_good():\n    pass\n"


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    made = LocalRunner(ensure_site())
    yield made
    made.close()


def run(runner: LocalRunner, files: Mapping[str, str], **more: Any) -> Run:
    """All test files of a tree."""
    tests = more.pop("tests", [name for name in files if name.rpartition("/")[2].startswith("test_")])
    tree = {name: text.encode() for name, text in files.items()}
    return asyncio.run(runner(tree, tests, places=("tests/",), **more))


def gone(number: int) -> bool:
    """Has this process ended, within two seconds?"""
    for _ in range(40):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_test_finds_the_variables_of_a_sandbox(runner: LocalRunner) -> None:
    same = {name: ENVIRONMENT[name] for name in ("LANG", "TERM", "PAGER", "GIT_PAGER", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")}
    text = f"import os\n\ndef test_same():\n    assert {{n: os.environ.get(n) for n in {list(same)}}} == {same}\n"
    assert run(runner, {"test_a.py": text}).outcomes == {"test_a.py::test_same": "passed"}


def test_a_test_of_which_a_part_failed_has_failed(runner: LocalRunner) -> None:
    text = """import unittest

class TestParts(unittest.TestCase):
    def test_parts(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)

    def test_sound_parts(self):
        with self.subTest():
            self.assertTrue(True)
"""
    found = run(runner, {"test_a.py": text}).outcomes
    assert found == {"test_a.py::TestParts::test_parts": "failed", "test_a.py::TestParts::test_sound_parts": "passed"}


def test_a_run_tells_how_each_test_ended_and_which_files_do_not_import(runner: LocalRunner) -> None:
    text = """import pytest
def test_good(): pass
def test_bad(): assert 1 == 2, "never"
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert 0
@pytest.fixture
def broken(): raise KeyError("x")
def test_of_fixture(broken): pass
"""
    found = run(runner, {"tests/test_a.py": text, "tests/test_b.py": "import nothing_of_that_name\n"})
    assert found.state == "ok"
    assert {test.split("::")[1]: outcome for test, outcome in found.outcomes.items()} == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
        "test_of_fixture": "error",
    }
    assert found.failures["tests/test_a.py::test_bad"].message.startswith("never")
    assert found.broken == ("tests/test_b.py",)
    assert "No module named 'nothing_of_that_name'" in found.reasons[0]


def test_only_the_tests_that_are_named_run(runner: LocalRunner) -> None:
    found = run(runner, {"tests/test_a.py": GOOD + "def test_other():\n    pass\n"}, tests=["tests/test_a.py::test_other"])
    assert list(found.outcomes) == ["tests/test_a.py::test_other"]


def test_a_traced_run_tells_which_test_runs_which_line(runner: LocalRunner) -> None:
    files = {
        "box.py": "def area(a, b):\n    return a * b\n\n\ndef other():\n    return 1\n",
        "tests/test_box.py": "import box\ndef test_area():\n    box.area(1, 2)\ndef test_nothing():\n    pass\n",
    }
    found = run(runner, files, asked=Asked(cover=["box.py"]))
    assert found.cover == {"box.py": {2: ("tests/test_box.py::test_area",)}}


def test_calls_are_tried_without_a_test(runner: LocalRunner) -> None:
    shown = [
        {"imports": "import box", "code": "box.half(8)", "actual": "", "expected": "4.0"},
        {"imports": "import box", "code": "box.half(8)", "actual": "", "expected": "5.0"},
        {"imports": "import box", "code": "box.half('a')", "actual": "", "expected": "an exception"},
        {"imports": "import no_box", "code": "1", "actual": "", "expected": "1"},
    ]
    found = run(runner, {"box.py": "def half(x):\n    return x / 2\n"}, tests=(), asked=Asked(tries=shown))
    assert (found.state, found.tried) == ("ok", (True, False, True, False))


BOX = """class Box:
    def __init__(self, size): self.size, self.full = size, False
    def fill(self, things): self.full = things[self.size]
    def open(self, force=2):
        return {}[force]
def area(a, b): return 0
"""
BOX_TESTS = """import box, pytest, unittest
from unittest import mock
def helper(): return box.area(1, 2)
def test_values():
    wide, count = [3, 4], len([1])
    assert all(box.area(x, count) for x in wide)
def test_object():
    mine = box.Box(3)
    assert mine.full
def test_statement():
    mine = box.Box(3)
    del mine.lid
def test_changed_before():
    mine = box.Box(3)
    mine.size = []
    assert mine.size
def test_of_its_own(): assert helper() == 2
def test_of_a_result():
    found = box.area(1, 2)
    assert found == 2
def test_about_nothing():
    found = [box.area(1, 2)]
    found.append(1)
    assert len(found) == 9
def test_of_a_file(tmp_path):
    assert box.area(str(tmp_path), 1)
def test_raises():
    with pytest.raises(ValueError):
        box.area(-1, 1)
def test_of_a_mock():
    seen = mock.Mock()
    assert box.area(seen, seen)
@pytest.fixture
def opened(): return box.Box(1).open
def test_came_in_by(opened):
    call = lambda: opened(7)
    call()
class TestBox(unittest.TestCase):
    def setUp(self): self.box = box.Box(2)
    def test_it(self): self.assertTrue(self.box.full)
"""


def test_a_failing_statement_is_told_as_a_script_only_if_that_fails_in_the_same_way(runner: LocalRunner) -> None:
    found = run(runner, {"box.py": BOX, "tests/test_box.py": BOX_TESTS}, asked=Asked(explain=True))
    failures = {test.rpartition("::")[2]: failure for test, failure in found.failures.items()}
    shown = {name: failure.shown.get("code", "") or failure.script for name, failure in failures.items()}
    assert shown["test_values"] == "all((box.area(x, 1) for x in [3, 4]))"
    assert shown["test_object"] == "box.Box(3).full"
    assert shown["test_statement"] == "import box\ndel box.Box(3).lid"
    assert shown["test_raises"] == "box.area(-1, 1)"
    assert failures["test_came_in_by"].statement == "box.Box.open(7)"
    assert shown["test_of_a_result"] == "box.area(1, 2)"
    untold = {name for name, code in shown.items() if not code}
    others = {"test_about_nothing", "test_changed_before", "test_of_a_mock", "test_of_a_file"}
    assert untold == {"test_of_its_own", "test_it", "test_came_in_by", *others}


def test_a_script_is_tried_as_a_call_is(runner: LocalRunner) -> None:
    tries = [{"script": "import box\nassert box.half(8) == 4"}, {"script": "import box\nassert box.half(8) == 5"}]
    found = run(runner, {"box.py": "def half(x):\n    return x / 2\n"}, tests=(), asked=Asked(tries=tries))
    assert (found.state, found.tried) == ("ok", (True, False))


# --- bad ends ------------------------------------------------------------------------------------


def test_a_test_that_spins_is_ended_by_its_use_of_the_processor(runner: LocalRunner) -> None:
    assert run(runner, {"tests/test_a.py": "def test_it():\n    while True: pass\n"}, seconds=0.5).state == "timeout"


def test_a_test_that_sleeps_is_ended_by_the_clock(runner: LocalRunner) -> None:
    began = time.monotonic()
    assert run(runner, {"tests/test_a.py": "import time\ntime.sleep(600)\n"}, seconds=0.3).state == "timeout"
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("code", ["os._exit(0)", "os.abort()"])
def test_a_run_that_dies_is_told_from_one_that_ends(runner: LocalRunner, code: str) -> None:
    found = run(runner, {"tests/test_a.py": f"import os\ndef test_it():\n    {code}\n", "tests/test_b.py": GOOD})
    assert found.state == "died"
    assert run(runner, {"tests/test_b.py": GOOD}).outcomes == {"tests/test_b.py::test_good": "passed"}, "the next run is not harmed"


def test_a_test_that_takes_too_much_memory_fails_alone(runner: LocalRunner) -> None:
    found = run(runner, {"tests/test_a.py": "def test_big():\n    bytes(8 << 30)\n", "tests/test_b.py": GOOD})
    assert found.outcomes == {"tests/test_a.py::test_big": "failed", "tests/test_b.py::test_good": "passed"}


def test_what_a_test_left_running_is_killed(runner: LocalRunner, tmp_path: Path) -> None:
    text = f"""import subprocess, threading, time
def test_it():
    child = subprocess.Popen(["sleep", "600"])
    open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
    threading.Thread(target=time.sleep, args=(600,)).start()
"""
    assert run(runner, {"tests/test_a.py": text}).outcomes == {"tests/test_a.py::test_it": "passed"}
    assert gone(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("wait", [0.05, 0.6])
def test_a_run_that_is_cancelled_leaves_no_process(tmp_path: Path, wait: float) -> None:
    text = f"import os, time\nopen({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w')\ntime.sleep(600)\n"

    async def cancelled() -> None:
        work = asyncio.create_task(runner({"tests/test_a.py": text.encode()}, ["tests/test_a.py"], places=("tests/",)))
        await asyncio.sleep(wait)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    runner = LocalRunner(ensure_site())
    try:
        asyncio.run(cancelled())
        time.sleep(0.2)
        assert all(gone(int(path.name)) for path in tmp_path.iterdir())
    finally:
        runner.close()


def test_a_closed_runner_leaves_neither_processes_nor_folders() -> None:
    runner = LocalRunner(ensure_site())
    text = "import os, tempfile\ndef test_it():\n    assert 0, f'{os.getppid()} {os.getcwd()} {tempfile.mkdtemp()}'\n"
    told = run(runner, {"tests/test_a.py": text}).failures["tests/test_a.py::test_it"].message
    server, folder, temporary = told.split("\n")[0].split(" ")
    assert os.path.exists(temporary)
    runner.close()
    assert gone(int(server))
    assert not os.path.exists(folder)
    assert not os.path.exists(temporary)


# --- what a test does to the tree ----------------------------------------------------------------

TREE = {"box.py": "SIDE = 1\n", "deep/er/box.py": "SIDE = 2\n", "data/a.txt": "1"}
LOOK = """import os
def test_look():
    found = {}
    for folder, folders, names in os.walk("."):
        folders[:] = [f for f in folders if f != "__pycache__"]
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), ".")
            found[path] = open(path).read()
        if folder != "." and not names and not folders:
            found[folder] = "an empty folder"
    home = os.listdir(os.environ["HOME"])
    assert 0, ascii([sorted(found.items()), home])
"""
DEEDS = [
    "open('box.py', 'w').write('SIDE = 9')",
    "open('box.py', 'w').write('SIDE = 7\\n'); os.utime('box.py', ns=TIMES)",
    "os.remove('box.py')",
    "shutil.rmtree('deep')",
    "os.mkdir('new'); open('new/file', 'w').write('x')",
    "os.makedirs('empty/folder')",
    "os.remove('box.py'); os.mkdir('box.py'); open('box.py/x', 'w')",
    "shutil.rmtree('deep'); open('deep', 'w').write('a file now')",
    "os.remove('box.py'); os.symlink('/etc/hostname', 'box.py')",
    "shutil.rmtree('deep'); os.symlink('/etc', 'deep')",
    "os.chmod('box.py', 0); os.chmod('data', 0)",
    "shutil.rmtree(os.getcwd())",
    "open(os.path.expanduser('~/.config'), 'w').write('x'); os.mkdir(os.path.expanduser('~/folder'))",
    "os.mkfifo('pipe')",
    "os.rename('box.py', 'other.py')",
]


@pytest.fixture(scope="module")
def as_given(runner: LocalRunner) -> str:
    """What a test sees of an untouched tree."""
    return look(runner)


def look(runner: LocalRunner) -> str:
    return run(runner, {**TREE, "tests/test_look.py": LOOK}).failures["tests/test_look.py::test_look"].message.split("\n")[0]


def test_an_untouched_tree_holds_what_was_given_and_nothing_else(as_given: str) -> None:
    assert as_given == ascii([sorted({**TREE, "tests/test_look.py": LOOK}.items()), []])


@pytest.mark.parametrize("deed", DEEDS)
def test_what_a_test_does_to_the_tree_does_not_spoil_the_next_run(runner: LocalRunner, as_given: str, deed: str) -> None:
    text = f"import os, shutil\nTIMES = (0, os.stat('box.py').st_mtime_ns)\ndef test_it():\n    {deed}\n"
    assert run(runner, {**TREE, "tests/test_a.py": text}).outcomes == {"tests/test_a.py::test_it": "passed"}
    assert look(runner) == as_given


TREES = st.lists(st.dictionaries(st.sampled_from(["a.py", "b/a.py", "b/c/a.py", "c"]), st.sampled_from([b"", b"x = 1\n", b"x = 2\n"])))
CHANGES = st.lists(
    st.tuples(st.sampled_from(["a.py", "b", "b/c", "b/a.py", "c", "new"]), st.sampled_from(["remove", "folder", "link", "write"]))
)


@given(trees=TREES, changes=CHANGES)
def test_a_tree_is_what_was_asked_for_whatever_was_there_before(trees: list[dict[str, bytes]], changes: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        slot = _Slot(Path(folder, "1"))
        for number, tree in enumerate(trees):
            slot.lay_out(tree)
            found = {str(path.relative_to(slot.tree)): path for path in slot.tree.rglob("*")}
            assert {name: path.read_bytes() for name, path in found.items() if not path.is_dir()} == tree
            assert all(any(path.iterdir()) for path in found.values() if path.is_dir())
            for name, deed in changes[number::2]:
                do(slot.tree / name, deed)


def do(path: Path, deed: str) -> None:
    """What a test might do, where it can be done."""
    with suppress(OSError):
        if deed in ("remove", "folder", "link"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        if deed == "folder":
            path.mkdir()
        elif deed == "link":
            path.symlink_to("/etc")
        elif deed == "write":
            path.write_bytes(b"x = 3\n")


# --- variations ----------------------------------------------------------------------------------


def test_variations_have_other_orders_and_hash_seeds(runner: LocalRunner) -> None:
    names = [f"test_{number}" for number in range(8)]
    text = "".join(f"def {name}():\n    pass\n" for name in names)
    look = "import os\ndef test_seed():\n    assert 0, os.environ['PYTHONHASHSEED'] + ' ' + str(hash('a'))\n"
    orders, seeds = [], []
    for variation in (0, 1, 2, 1):
        found = run(runner, {"tests/test_a.py": text, "tests/test_seed.py": look}, variation=variation)
        orders.append([test.split("::")[1] for test in found.outcomes if "test_a" in test])
        seeds.append(found.failures["tests/test_seed.py::test_seed"].message.split("\n")[0])
    assert orders[0] == names
    assert orders[1] == orders[3] != orders[0]
    assert orders[2] not in (orders[0], orders[1])
    assert seeds[1] == seeds[3]
    assert len(set(seeds)) == 3
    assert sorted(orders[1]) == names


def test_runs_beside_each_other_have_trees_of_their_own(runner: LocalRunner) -> None:
    async def several() -> list[Run]:
        texts = [f"import box\ndef test_it():\n    assert box.N == {number}\n" for number in range(4)]
        trees = [{"box.py": f"N = {number}\n".encode(), "tests/test_a.py": text.encode()} for number, text in enumerate(texts)]
        return await asyncio.gather(*(runner(tree, ["tests/test_a.py"], places=("tests/",)) for tree in trees))

    assert [found.outcomes for found in asyncio.run(several())] == [{"tests/test_a.py::test_it": "passed"}] * 4
