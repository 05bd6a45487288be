"""The verbs of task sets as a person calls them: what they print, how they refuse, and that a refusal leaves nothing half made."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.tasks.caches import a_cache
from tests.tasks.shapes import TREE, write

from patchgrad.cli import main
from patchgrad.tasks.mutations import FAMILIES
from patchgrad.tasks.sets import MANIFEST, TASKS, Member, members


@dataclass(frozen=True)
class Said:
    """How a call ended."""

    code: int
    out: str
    err: str


def call(*words: str) -> Said:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(["tasks", *words])
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a project, where what the forge keeps goes too."""
    folder = tmp_path_factory.mktemp("tasks")
    write(folder / "shapes", TREE)
    with pytest.MonkeyPatch.context() as patch:
        a_cache(folder / "cache")
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="module")
def forged(place: Path) -> Said:
    return call("forge", str(place / "shapes"), "--count", "3", "--seed", "4", "--confirm", "1", "--out", str(place / "set"))


@pytest.fixture
def found(forged: Said, place: Path) -> list[Member]:
    return members(place / "set")


def test_forging_says_what_came_of_each_source(forged: Said, place: Path, found: list[Member]) -> None:
    assert forged.code == 0, forged.err
    assert forged.out.startswith("shapes-1.0: 3 tasks of ")
    assert "14 reliable tests, left out 1 failed, 1 not collected." in forged.out
    assert f"3 tasks are in {place / 'set'}: patchgrad tasks stats" in forged.out
    assert len(found) == 3
    assert sorted(path.name for path in (place / "set").iterdir()) == ["archives", MANIFEST, TASKS]


def test_the_manifest_tells_the_command_and_no_place_of_the_set(forged: Said, place: Path) -> None:
    (origin,) = json.loads((place / "set" / MANIFEST).read_text())["origins"]
    assert origin["how"] == f"patchgrad tasks forge {place / 'shapes'} --count 3 --seed 4 --confirm 1"
    assert str(place / "set") not in (place / "set" / MANIFEST).read_text()


def test_forging_for_a_machine_adds_to_the_set_and_prints_one_object(forged: Said, place: Path, found: list[Member]) -> None:
    words = ("--count", "1", "--confirm", "1", "--families", "return_none", "--out", str(place / "other"), "--json")
    said = call("forge", str(place / "nothing-here"), str(place / "shapes"), *words)
    told = json.loads(said.out)
    assert said.code == 1, "one of two sources is of no use"
    assert [(bool(one["error"]), len(one["tasks"])) for one in told["sources"]] == [(True, 0), (False, 1)]
    assert told["sources"][1]["reliable_tests"] == 14
    assert [member.task.tags["family"] for member in members(place / "other")] == ["return_none"]
    before = len(found)
    assert call("forge", str(place / "shapes"), *words[:-3], "--out", str(place / "set")).code == 0
    assert before <= len(members(place / "set")) <= before + 1


def test_a_set_is_listed(place: Path, found: list[Member]) -> None:
    said = call("list", str(place / "set"))
    assert said.code == 0
    assert [line.split()[0] for line in said.out.splitlines()] == [member.task.id for member in found]
    first = found[0].task
    tests = len(first.checks.fail_to_pass) + len(first.checks.pass_to_pass)
    assert said.out.startswith(f"{first.id}  {tests} tests  In shapes this goes wrong:")
    rows = [json.loads(line) for line in call("list", str(place / "set"), "--json").out.splitlines()]
    assert [row["id"] for row in rows] == [member.task.id for member in found]
    assert not [row for row in rows if "repair" in row], "a listing may be given to an agent"


def test_a_task_is_shown_with_its_repair(place: Path, found: list[Member]) -> None:
    member = found[0]
    said = call("show", str(place / "set"), member.task.id)
    assert said.code == 0
    for part in (member.task.instruction.strip(), member.repair.rstrip(), member.output.rstrip(), "with a patch", "licence     MIT"):
        assert part in said.out
    assert f"to mend     {member.task.checks.fail_to_pass[0]}" in said.out
    assert member.levels["located"].strip() in call("show", str(place / "set"), member.task.id, "--level", "located").out
    row = json.loads(call("show", str(place / "set"), member.task.id, "--json").out)
    assert (row["id"], row["repair"], row["attempts"]) == (member.task.id, member.repair, {})


def test_a_set_is_counted(place: Path, found: list[Member]) -> None:
    said = call("stats", str(place / "set"))
    assert said.code == 0
    assert f"{len(found)} tasks from 1 packages" in said.out
    assert f"licence  MIT {len(found)}" in said.out
    assert "shapes 1.0: " in said.out
    told = json.loads(call("stats", str(place / "set"), "--json").out)
    assert told["tasks"] == len(found) == sum(told["packages"]["shapes"].values())
    assert told["family"] == Counter(family for member in found for family in member.task.tags["family"].split("+"))


# --- what is refused -----------------------------------------------------------------------------

Refused = Callable[..., str]


@pytest.fixture
def refused(place: Path, tmp_path: Path) -> Refused:
    """Forge what cannot be; the one sentence, and no set is there afterwards."""

    def call_it(*words: str) -> str:
        said = call("forge", *words, "--out", str(tmp_path / "set"))
        assert said.code == 2
        assert "Traceback" not in said.err
        (last,) = [line for line in said.err.splitlines() if line.startswith("patchgrad: ")]
        assert said.err.rstrip().endswith(last)
        assert not (tmp_path / "set").exists()
        return last.removeprefix("patchgrad: ")

    return call_it


def test_a_project_without_tests(refused: Refused, tmp_path: Path) -> None:
    write(tmp_path / "bare", {"bare.py": "x = 1\n"})
    expected = "The repository has no tests: no file is named test_*.py or *_test.py, or as its configuration of pytest says."
    assert refused(str(tmp_path / "bare")) == f"{tmp_path}/bare: {expected}"


def test_nothing_named_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "forge", "--out", str(tmp_path / "set")]) == 2
    assert "name a SOURCE, or say --catalogue" in capsys.readouterr().err


def test_a_source_that_does_not_exist(refused: Refused) -> None:
    assert refused("./nothing-here").startswith("./nothing-here: there is no such folder, and it is no package (NAME or NAME==VERSION)")


def test_a_suite_that_fails_before_any_bug(refused: Refused, tmp_path: Path) -> None:
    write(tmp_path / "red", {"box.py": "x = 1\n", "test_box.py": "import box\ndef test_x():\n    assert box.x == 2, 'x is wrong'\n"})
    assert "No test of red-0 passes 5 times in 5 orders: most often it is 'x is wrong" in refused(str(tmp_path / "red"))


def test_a_project_whose_bugs_nobody_notices(refused: Refused, tmp_path: Path) -> None:
    blind = "import box\ndef test_it():\n    box.area(2, 3)\n"
    write(tmp_path / "blind", {"box.py": "def area(a, b):\n    return a * b\n", "test_box.py": blind})
    assert "candidates is a task." in refused(str(tmp_path / "blind"), "--families", "op_swap")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--families", "op_swop"], "There is no family of bugs op_swop; there are: " + ", ".join(FAMILIES) + "."),
        (["--families", ","], "There is no family of bugs named; there are: "),
        (["--count", "0"], "--count and --confirm must be at least 1."),
        (["--confirm", "0"], "--count and --confirm must be at least 1."),
    ],
)
def test_words_that_cannot_be(refused: Refused, place: Path, words: list[str], says: str) -> None:
    assert refused(str(place / "shapes"), *words).startswith(says)


def test_a_set_that_is_broken_is_not_added_to(forged: Said, place: Path, tmp_path: Path) -> None:
    write(tmp_path / "set", {TASKS: "{]\n"})
    said = call("forge", str(place / "shapes"), "--count", "3", "--seed", "4", "--confirm", "1", "--out", str(tmp_path / "set"))
    assert said.code == 2
    assert "is broken in line 1" in said.err
    assert (tmp_path / "set" / TASKS).read_text() == "{]\n"


@pytest.mark.parametrize("verb", [["list"], ["stats"], ["show"]])
def test_a_set_that_is_not_there(tmp_path: Path, verb: list[str]) -> None:
    said = call(*verb, str(tmp_path / "nothing"), *(["x"] if verb == ["show"] else []))
    assert said.code == 2
    assert len(said.err.splitlines()) == 1


def test_a_task_or_level_that_is_not_there(place: Path, found: list[Member]) -> None:
    name = found[0].task.id
    assert f"did you mean {name}?" in call("show", str(place / "set"), name[:-1]).err
    said = call("show", str(place / "set"), name, "--level", "loud")
    assert said.code == 2
    assert "has no statement at level 'loud': choose from " in said.err


@pytest.mark.parametrize("words", [[], ["forge"], ["forge", "box"], ["lost"]])
def test_a_call_with_words_missing_says_which(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["tasks", *words])
    assert left.value.code == 2
    assert "usage: patchgrad tasks" in capsys.readouterr().err
