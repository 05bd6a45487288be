"""From a project with tests to tasks: they fail as they are, pass with the repair, hide what decides, and come out the same again."""

from __future__ import annotations

import ast
import asyncio
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tasks.shapes import TEST_BOX, TREE, write

from patchgrad.errors import PatchgradError
from patchgrad.grading import grade
from patchgrad.packages import ensure_site
from patchgrad.packages.sites import distribution
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.tasks.archive import open_archive, pack, unpack
from patchgrad.tasks.forge import SHARES, Forged, Order, forge
from patchgrad.tasks.forge.candidates import parts
from patchgrad.tasks.forge.hiding import hide
from patchgrad.tasks.forge.written import written
from patchgrad.tasks.making import Made, forge_set
from patchgrad.tasks.projects import Project, open_project
from patchgrad.tasks.projects.catalogue import CATALOGUE, split_of
from patchgrad.tasks.running import LocalRunner, Run, Runner
from patchgrad.tasks.sets import MANIFEST, TASKS, Member, members
from patchgrad.tasks.splits import LOOK_ALIKES
from patchgrad.tasks.trees import touched
from patchgrad.values import Task

ORDER = Order(5, seed=4, confirmations=2, workers=2)
Files = dict[str, bytes]


@dataclass(frozen=True)
class Bench:
    """A forged project, and what runs its tests."""

    project: Project
    files: Files
    forged: Forged
    folder: Path
    runner: LocalRunner

    def run(self, files: Files, task: Task) -> Run:
        """The test files that a task names, in such a tree."""
        return asyncio.run(self.runner(files, task.checks.command[1:], places=self.project.tests))


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    made = LocalRunner(ensure_site())
    yield made
    made.close()


@pytest.fixture(scope="module")
def bench(runner: LocalRunner, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    top = tmp_path_factory.mktemp("forge")
    project, files = open_project(str(write(top / "shapes", TREE)), top / "cache")
    forged = asyncio.run(forge(project, files, ORDER, lambda _: runner, top / "work"))
    return Bench(project, files, forged, top / "work", runner)


def patched(files: Files, patch: str, folder: Path) -> Files:
    """The tree with a patch on it, as git applies it."""
    if not patch:
        return files
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    done = subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name: (folder / name).read_bytes() for name in files}


@dataclass(frozen=True)
class States:
    """A task's tree at four moments."""

    archive: Files
    agent: Files
    graded: Files
    repaired: Files


def states(task: Task, repair: str, folder: Path) -> States:
    archive = open_archive(task.repository)
    agent = patched(archive, task.repository.patch, folder / "agent")
    graded = patched(agent, task.checks.patch, folder / "graded")
    return States(archive, agent, graded, patched(graded, repair, folder / "repaired"))


def test_the_set_has_tasks_of_every_kind(bench: Bench) -> None:
    kinds = Counter(member.task.tags["kind"] for member in bench.forged.members)
    assert kinds == parts(ORDER.count, SHARES) == {"repair": 3, "pair": 1, "implement": 1}
    assert len({member.task.id for member in bench.forged.members}) == ORDER.count
    functions = Counter(member.task.tags["function"] for member in bench.forged.members)
    assert max(functions.values()) <= 2


def test_a_task_fails_as_it_is_and_passes_with_the_repair(bench: Bench, tmp_path: Path) -> None:
    for member in bench.forged.members:
        task = member.task
        tree = states(task, member.repair, tmp_path / task.id)
        bad, good = bench.run(tree.graded, task).outcomes, bench.run(tree.repaired, task).outcomes
        assert {bad[test] for test in task.checks.fail_to_pass} == {"failed"}
        assert {good[test] for test in task.checks.fail_to_pass} == {"passed"}
        assert {bad[test] for test in task.checks.pass_to_pass} == {good[test] for test in task.checks.pass_to_pass} == {"passed"}


def test_the_grader_fails_a_task_as_it_is_and_resolves_it_with_the_repair(bench: Bench) -> None:
    async def judge() -> None:
        boxes = BwrapSandboxes(cells=2)
        try:
            try:
                await (await boxes.open(bench.forged.members[0].task)).close()
            except PatchgradError as error:
                pytest.skip(str(error))
            for member in bench.forged.members:
                empty = await grade(member.task, "", boxes, run_empty=True)
                solved = await grade(member.task, member.repair, boxes)
                assert (empty.resolved, empty.fault, empty.tamper) == (False, None, ())
                assert {t.status for t in empty.tests if t.expected == "fail_to_pass"} <= {"failed", "error"}
                assert {t.status for t in empty.tests if t.expected == "pass_to_pass"} == {"passed"}
                assert (solved.resolved, solved.fault, solved.tamper) == (True, None, ())
        finally:
            await boxes.close()

    asyncio.run(judge())


def test_a_pair_breaks_what_both_break_alone(bench: Bench) -> None:
    (pair,) = (member for member in bench.forged.members if member.task.tags["kind"] == "pair")
    keys = pair.task.tags["family"].split("+")
    alone = [set(m.task.checks.fail_to_pass) for m in bench.forged.members if m.task.tags["family"] in keys]
    assert len(alone) == 2
    assert set(pair.task.checks.fail_to_pass) == set.union(*alone)
    assert pair.task.instruction.count("and this too:") == 1
    assert pair.levels["located"].count("fault is in") == 2


def test_the_patch_of_the_repository_and_that_of_the_grader_are_inverse_on_the_test_files(bench: Bench, tmp_path: Path) -> None:
    for member in bench.forged.members:
        tree = states(member.task, member.repair, tmp_path / member.task.id)
        tests = [path for path in tree.archive if bench.project.is_test(path)]
        assert any(tree.agent[path] != tree.archive[path] for path in tests)
        assert all(tree.graded[path] == tree.archive[path] for path in tests)
        assert tree.repaired == tree.archive


def test_hidden_tests_are_not_in_the_agents_tree(bench: Bench, tmp_path: Path) -> None:
    for member in bench.forged.members:
        agent = states(member.task, member.repair, tmp_path / member.task.id).agent
        for test in member.task.checks.fail_to_pass:
            path, *_, name = test.split("::")
            assert name.split("[")[0] not in {n.name for n in ast.walk(ast.parse(agent[path])) if isinstance(n, ast.FunctionDef)}
        assert not [path for path in agent if member.repair.encode() in agent[path]]


def test_many_tasks_share_one_archive_which_is_the_unbroken_project(bench: Bench) -> None:
    assert len({member.task.repository.digest for member in bench.forged.members}) == 1
    files = open_archive(bench.forged.members[0].task.repository)
    assert files["src/shapes/box.py"] == TREE["src/shapes/box.py"].encode()
    assert files["LICENSE"] == TREE["LICENSE"].encode()
    assert b"pythonpath = src ." in files["pytest.ini"]
    assert "tests/test_broken.py" not in files, "a test file that does not import would fail for every agent"


def test_a_task_says_where_it_is_from_and_what_may_not_be_touched(bench: Bench) -> None:
    for member in bench.forged.members:
        task = member.task
        assert task.id.startswith(f"shapes-1.0.{task.tags['family']}.")
        assert (task.tags["package"], task.tags["version"], task.tags["licence"], task.tags["source"]) == ("shapes", "1.0", "MIT", "forge")
        assert (task.tags["split"], task.checks.command[0]) == ("train", "pytest")
        assert set(task.checks.protected) == {"pytest.ini", "tests/test_box.py", "tests/test_words.py"}
        for test in task.checks.fail_to_pass[:1]:
            assert f"FAILED {test} - " in member.output


def test_a_statement_shows_the_fault_and_keeps_the_secrets(bench: Bench) -> None:
    for member in bench.forged.members:
        located, report = member.levels["located"], member.task.instruction
        assert f"`{member.task.tags['function']}()` in `{member.task.tags['file']}`" in located
        assert member.task.tags["file"] not in report
        assert ">>> from shapes" in report
        names = [test.split("::")[-1].split("[")[0] for test in member.task.checks.fail_to_pass]
        assert not [secret for secret in (*member.task.tags["family"].split("+"), *names) if secret in located]


def test_forging_again_runs_nothing_but_what_shows_the_packages(bench: Bench) -> None:
    first = True

    async def once(files: Files, tests: list[str], **more: object) -> Run:
        nonlocal first
        assert first, "the profile and the candidates are known"
        first = False
        return await bench.runner(files, tests, places=bench.project.tests)

    def counted(_: Path) -> Runner:
        return once  # type: ignore[return-value]  # it is called with no other words

    again = asyncio.run(forge(bench.project, bench.files, ORDER, counted, bench.folder))
    assert again == bench.forged


def test_an_interrupted_run_goes_on_to_the_same_set_with_another_number_of_workers(bench: Bench, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(tasks: int, _: int, __: str) -> None:
        if tasks == 2:
            raise Killed

    (tmp_path / "profile.json").write_bytes((bench.folder / "profile.json").read_bytes())
    order = replace(ORDER, workers=3)
    with pytest.raises(Killed):
        asyncio.run(forge(bench.project, bench.files, order, lambda _: bench.runner, tmp_path, kill))
    with (tmp_path / TASKS).open("a") as file:
        file.write('{"id": "half a ro')
    assert len(members(tmp_path)) == 2
    again = asyncio.run(forge(bench.project, bench.files, order, lambda _: bench.runner, tmp_path))
    assert [_movable(member) for member in again.members] == [_movable(member) for member in bench.forged.members]
    assert again.rejected == bench.forged.rejected


def _movable(member: Member) -> Member:
    repository = replace(member.task.repository, location="")
    return replace(member, task=replace(member.task, repository=repository))


def test_a_bug_whose_repair_stands_elsewhere_in_the_tree_is_no_task(bench: Bench, tmp_path: Path) -> None:
    (path,) = {touched(member.repair)[0] for member in bench.forged.members[:1]}
    assert "stands elsewhere too" not in bench.forged.rejected
    (tmp_path / "profile.json").write_bytes((bench.folder / "profile.json").read_bytes())
    doubled = {**bench.files, "docs/old_copy.txt": bench.files[path]}
    made = asyncio.run(forge(bench.project, doubled, replace(ORDER, count=2), lambda _: bench.runner, tmp_path))
    assert not [member for member in made.members if path in touched(member.repair)]
    assert made.rejected["stands elsewhere too"] > 0


SQUARE = """

class Shape:
    def sides(self, more=0):
        return {base} + more


class Square(Shape):
    def sides(self, more=0):
        return 4 + more
"""
TEST_SQUARE = """

def test_sides():
    assert box.Square().sides() == 4
    assert box.Square().sides(2) == 6
"""


@pytest.mark.parametrize(("base", "weak"), [(4, 1), (3, 0)])
def test_a_bug_that_is_gone_with_its_function_is_no_task(bench: Bench, tmp_path: Path, base: int, weak: int) -> None:
    tree = {**TREE, "src/shapes/box.py": TREE["src/shapes/box.py"] + SQUARE.format(base=base)}
    tree["tests/test_box.py"] += TEST_SQUARE
    project, files = open_project(str(write(tmp_path / "shapes", tree)), tmp_path / "cache")
    made = asyncio.run(forge(project, files, Order(9, families=("op_swap",), confirmations=1), lambda _: bench.runner, tmp_path))
    assert made.rejected.get("weak", 0) == weak
    assert ("Square.sides" in {member.task.tags["function"] for member in made.members}) == (not weak)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_project_that_gives_no_task_is_given_up(bench: Bench, tmp_path: Path, workers: int) -> None:
    async def passes(files: Files, tests: Sequence[str], **_: object) -> Run:
        return Run("ok", dict.fromkeys(bench.forged.profile.tests, "passed"), dict.fromkeys(bench.forged.profile.tests, 0.0), {})

    for name in ("profile.json", "packages.json"):
        (tmp_path / name).write_bytes((bench.folder / name).read_bytes())
    order = replace(ORDER, workers=workers)
    made = asyncio.run(forge(bench.project, bench.files, order, lambda _: passes, tmp_path, fruitless=4))  # type: ignore[arg-type, return-value]
    assert (made.members, made.rejected) == ((), {"survived": 4})


def test_tests_may_be_left_in_sight(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_bytes((bench.folder / "profile.json").read_bytes())
    order = Order(1, visible_tests=True, families=("op_swap", "cmp_boundary"), confirmations=1)
    (member,) = asyncio.run(forge(bench.project, bench.files, order, lambda _: bench.runner, tmp_path)).members
    assert member.task.checks.patch == ""
    assert member.task.tags["family"] in order.families
    tree = patched(open_archive(member.task.repository), member.task.repository.patch, tmp_path / "tree")
    assert tree["tests/test_box.py"] == TEST_BOX.encode()


def test_hiding_takes_whole_functions_and_keeps_the_file_valid() -> None:
    files = {name: text.encode() for name, text in TREE.items()}
    total = "tests/test_box.py::TestTotal"
    found = hide(files, ["tests/test_box.py::test_clamp[1-2]", f"{total}::test_add", f"{total}::test_empty"])
    assert found is not None
    text = found["tests/test_box.py"].decode()
    assert "test_clamp" not in text
    assert "parametrize" not in text
    assert "class TestTotal" not in text, "an empty class would tell of what it held"
    assert hide(files, [f"{total}::test_of_no_class"]) is None, "what is written nowhere cannot be taken out"


INHERITED = {
    "tests/__init__.py": "class Shared:\n    def test_add(self):\n        assert self.make()\n\n    def test_size(self):\n        pass\n",
    "tests/small.py": "from . import Shared as Common\n\n\nclass Small(Common):\n    make = list\n",
    "tests/test_a.py": "import tests.small\nfrom tests import small\n\n\n"
    "class TestA(small.Small):\n    def test_own(self):\n        pass\n\n\nclass TestB(object, TestA):\n    pass\n\n\n"
    "class TestC(made(3), tests.small.Small):\n    pass\n",
}


@pytest.mark.parametrize(
    ("test", "place"),
    [
        ("TestA::test_own", ("tests/test_a.py", ("TestA", "test_own"))),
        ("TestA::test_add[1]", ("tests/__init__.py", ("Shared", "test_add"))),
        ("TestB::test_own", ("tests/test_a.py", ("TestA", "test_own"))),
        ("TestB::test_size", ("tests/__init__.py", ("Shared", "test_size"))),
        ("TestB::test_nowhere", None),
        ("TestD::test_own", None),
    ],
)
def test_an_inherited_test_is_found_where_it_is_written(test: str, place: object) -> None:
    files = {name: text.encode() for name, text in INHERITED.items()}
    assert written(files, f"tests/test_a.py::{test}") == place


def test_an_inherited_test_is_hidden_for_all_that_inherit_it() -> None:
    files = {name: text.encode() for name, text in INHERITED.items()}
    found = hide(files, ["tests/test_a.py::TestA::test_add", "tests/test_a.py::TestB::test_own"])
    assert found is not None
    assert found["tests/__init__.py"] == b"class Shared:\n    def test_size(self):\n        pass\n"
    assert b"class TestA(small.Small):\n    pass\n" in found["tests/test_a.py"], "another class is made of it"


def test_a_gap_of_blanks_is_closed_too() -> None:
    parts = [
        "class TestIt:",
        "    def test_a(self):",
        "        pass",
        "    ",
        "    def test_b(self):",
        "        pass",
        "  ",
        "    def test_c(self):",
    ]
    text = "\n".join([*parts, "        pass\n"])
    found = hide({"t.py": text.encode()}, ["t.py::TestIt::test_b"])
    assert found is not None
    assert found["t.py"].decode().splitlines() == [line for line in text.splitlines() if line != "    "][:3] + text.splitlines()[6:]


def test_a_fixture_that_only_hidden_tests_used_goes_and_one_that_all_get_stays() -> None:
    text = """import pytest


@pytest.fixture(scope="module")
def conf():
    return 3


@pytest.fixture(autouse=True)
def always():
    return 4


def test_a(conf, always):
    assert conf == 3


def test_b():
    pass
"""
    found = hide({"t.py": text.encode()}, ["t.py::test_a"])
    assert found is not None
    assert b"def conf" not in found["t.py"]
    assert b"def always" in found["t.py"]


def test_tests_whose_values_stand_in_a_file_of_data_cannot_be_hidden() -> None:
    text = b"import json\n\n\ndef test_a():\n    assert json.load(open('data/wanted.json'))\n\n\ndef test_b():\n    pass\n"
    files = {"tests/t.py": text, "tests/data/wanted.json": b"[1]", "notes/1": b""}
    assert hide({**files, "tests/t.py": text.replace(b"data/wanted.json", b"1")}, ["tests/t.py::test_a"]) is not None
    assert hide(files, ["tests/t.py::test_a"]) is None
    assert hide(files, ["tests/t.py::test_b"]) is not None
    assert hide({"tests/t.py": text}, ["tests/t.py::test_a"]) is not None


def test_what_a_test_of_the_same_class_reads_does_not_keep_another_one_visible() -> None:
    text = b"class TestA:\n    def test_a(self):\n        open('data/wanted.json')\n\n    def test_b(self):\n        pass\n"
    files = {"tests/t.py": text, "tests/data/wanted.json": b"[1]"}
    assert hide(files, ["tests/t.py::TestA::test_a"]) is None
    assert hide(files, ["tests/t.py::TestA::test_b"]) is not None
    shared = {**files, "tests/t.py": text.replace(b"def test_a(", b"def setUp(")}
    assert hide(shared, ["tests/t.py::TestA::test_b"]) is None, "what its class reads for all of its tests"


NAMES = st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True)


@given(top=NAMES, inner=NAMES, gone=st.sets(st.sampled_from(["a", "b", "c", "d"])))
def test_what_is_left_of_a_test_file_is_what_was_not_hidden(top: list[str], inner: list[str], gone: set[str]) -> None:
    lines = [f"@mark\ndef test_{name}():\n    assert {name!r}\n" for name in top]
    lines += ["class TestIt:"] + [f"    def test_{name}(self):\n        pass\n" for name in inner] + ["    x = 1\n"]
    broken = [f"t.py::test_{n}" for n in top if n in gone] + [f"t.py::TestIt::test_{n}" for n in inner if n in gone]
    found = hide({"t.py": "\n".join(lines).encode()}, broken)
    assert found is not None
    tree = ast.parse(found.get("t.py", "\n".join(lines).encode()))
    left = [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    assert sorted(left) == sorted(f"test_{n}" for n in [*top, *inner] if n not in gone)


@given(count=st.integers(0, 200), shares=st.dictionaries(st.sampled_from(["repair", "pair", "implement"]), st.floats(0.01, 9), min_size=1))
def test_parts_are_whole_and_make_up_the_count(count: int, shares: dict[str, float]) -> None:
    found = parts(count, shares)  # type: ignore[arg-type]  # the strategy gives kinds
    assert sum(found.values()) == count
    assert all(abs(found[kind] - count * share / sum(shares.values())) < 1 for kind, share in shares.items())  # type: ignore[index]


def test_several_sources_make_one_set_and_one_of_no_use_is_told(bench: Bench, tmp_path: Path) -> None:
    good, bare = str(write(tmp_path / "shapes", TREE)), str(write(tmp_path / "bare", {"bare.py": "x = 1\n"}))
    told: list[tuple[str, int, int, str]] = []
    order = Order(2, confirmations=1)
    made = forge_set([bare, good], tmp_path / "set", order, tmp_path / "cache", "by hand", lambda *one: told.append(one))
    assert [(bool(one.error), len(one.members)) for one in made] == [(True, 0), (False, 2)], "no pair of less than two repairs"
    assert "has no tests" in made[0].error
    assert [one[0] for one in told] == [good] * len(told)
    assert made[1].reliable == 14
    assert made[1].left_out == {"failed": 1, "not collected": 1}
    kept = (tmp_path / "set" / TASKS).read_bytes(), (tmp_path / "set" / MANIFEST).read_bytes()
    assert _ids(made[1]) == sorted(member.task.id for member in members(tmp_path / "set"))
    forge_set([good], tmp_path / "set", order, tmp_path / "cache", "by hand")
    assert ((tmp_path / "set" / TASKS).read_bytes(), (tmp_path / "set" / MANIFEST).read_bytes()) == kept
    with pytest.raises(PatchgradError, match="has no tests"):
        forge_set([bare], tmp_path / "other", order, tmp_path / "cache")
    assert not (tmp_path / "other").exists()


def _ids(made: Made) -> list[str]:
    return sorted(member.task.id for member in made.members)


def test_packages_of_the_catalogue_are_pinned_once_and_on_one_side() -> None:
    assert Counter(pinned.split for pinned in CATALOGUE) == {"train": 41, "held_out": 5}
    assert len({distribution(pinned.requirement) for pinned in CATALOGUE}) == len({pinned.sha256 for pinned in CATALOGUE}) == 46
    side = {distribution(pinned.requirement): pinned.split for pinned in CATALOGUE}
    assert all(len({side[name] for name in group if name in side}) <= 1 for group in LOOK_ALIKES), "look-alikes are on one side"
    assert all("==" in pinned.requirement and len(pinned.sha256) == 64 for pinned in CATALOGUE)
    assert [split_of(name) for name in ("semver", "toolz", "a-package-of-yours")] == ["held_out", "train", "train"]


def test_an_archive_of_a_forged_set_packs_to_its_own_bytes(bench: Bench) -> None:
    data = Path(bench.forged.members[0].task.repository.location).read_bytes()
    assert pack(unpack(data)) == data


TABLES = """import math
import os
from shapes import area, clamp

EXPECTED = {(2, 3): 6}
KEPT = [1]


def helper(value):
    return EXPECTED[value]


def shared(value):
    return value


def test_area():
    for sides in EXPECTED:
        assert area(*sides) == helper(sides) + math.floor(0.5)


def test_clamp():
    assert clamp(shared(1), 0, 2) == KEPT[0]
"""


def test_what_only_hidden_tests_used_goes_with_them_and_leaves_no_gap() -> None:
    found = hide({"test_t.py": TABLES.encode()}, ["test_t.py::test_area"])
    assert found is not None
    text = found["test_t.py"].decode()
    assert text == TABLES.replace("import math\n", "").replace("area, ", "").replace("\nEXPECTED = {(2, 3): 6}\n", "\n").replace(
        "\n\ndef helper(value):\n    return EXPECTED[value]\n", ""
    ).replace(
        "\n\ndef test_area():\n    for sides in EXPECTED:\n        assert area(*sides) == helper(sides) + math.floor(0.5)\n", ""
    ).replace("clamp\n\nKEPT", "clamp\nKEPT")
    assert "import os" in text, "what was unused before stays"


@pytest.mark.parametrize(
    ("other", "stays"), [("from test_t import EXPECTED", True), ("from .test_t import *", True), ("from elsewhere import EXPECTED", False)]
)
def test_what_another_file_imports_from_this_one_stays(other: str, stays: bool) -> None:
    files = {"test_t.py": TABLES.encode(), "test_u.py": f"{other}\n".encode()}
    found = hide(files, ["test_t.py::test_area"])
    assert found is not None
    assert (b"EXPECTED = " in found["test_t.py"]) == stays
