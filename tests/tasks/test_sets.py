"""A set of tasks in a folder: written whole or not at all, the same bytes for the same members, and nothing from outside of it."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgrad.errors import Refused, TaskError
from patchgrad.tasks.archive import digest, open_archive
from patchgrad.tasks.sets import (
    MANIFEST,
    TASKS,
    Member,
    Origin,
    append,
    load_repairs,
    load_set,
    members,
    read_origins,
    row_of,
    save,
    unified,
)
from patchgrad.testing.tasks import a_repository, a_task
from patchgrad.values import Checks, HiddenFile, Limits, Repository, Task

ORIGIN = Origin("sdist", "box", "1.0", "ab" * 32, "MIT", "patchgrad tasks forge box", 3, {"survived": 2}, ("six==1.17.0",))


def a_member(folder: Path, name: str, kind: str = "repair", package: str = "box") -> Member:
    repository = a_repository(folder / "archives", {"box.py": package})
    tags = {"source": "forge", "package": package, "kind": kind, "family": "op_swap", "split": "train", "licence": "MIT", "level": "report"}
    levels = {"report": "It fails.", "located": "It fails in box.py."}
    task = a_task(name, "It fails.", repository, fail_to_pass=("t.py::a",), pass_to_pass=("t.py::b",), tags=tags)
    return Member(task, levels, f"repair of {name}")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_set_reads_back_at_every_level_of_help(tmp_path: Path) -> None:
    made = save(tmp_path, [a_member(tmp_path, "b"), a_member(tmp_path, "a")])
    assert members(tmp_path) == made
    assert [task.id for task in load_set(tmp_path)] == ["a", "b"]
    assert {(task.instruction, task.tags["level"]) for task in load_set(tmp_path, "located")} == {("It fails in box.py.", "located")}
    assert load_repairs(tmp_path) == {"a": "repair of a", "b": "repair of b"}
    assert open_archive(load_set(tmp_path)[0].repository) == {"box.py": b"box"}
    with pytest.raises(TaskError, match=r"Task a has no statement at level 'loud': choose from .*report"):
        load_set(tmp_path, "loud")


def test_a_set_may_be_moved(tmp_path: Path) -> None:
    save(tmp_path / "here", [a_member(tmp_path / "here", "a")])
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert open_archive(load_set(tmp_path / "there")[0].repository) == {"box.py": b"box"}


@pytest.mark.parametrize("seed", range(4))
def test_the_same_members_give_the_same_bytes_in_any_order_of_adding(tmp_path: Path, seed: int) -> None:
    def made(folder: Path, order: list[list[str]]) -> dict[str, bytes]:
        for names in order:
            save(folder, [a_member(folder, name) for name in names], [ORIGIN] if "a" in names else [])
        return content(folder)

    names = ["a", "b", "c", "d", "e"]
    random.Random(seed).shuffle(names)
    cut = seed + 1
    assert made(tmp_path / "two", [names[:cut], names[cut:]]) == made(tmp_path / "one", [["a", "b", "c", "d", "e"]])


def test_a_member_of_a_known_id_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    save(tmp_path, [a_member(tmp_path, "a"), a_member(tmp_path, "b")])
    save(tmp_path, [replace(a_member(tmp_path, "a"), repair="a better one")])
    assert load_repairs(tmp_path) == {"a": "a better one", "b": "repair of b"}


def test_a_set_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, [a_member(tmp_path, "a")], [ORIGIN])
    before = content(tmp_path)
    stray = a_member(tmp_path, "c")
    outside = replace(stray.task.repository, location="/elsewhere/archive.tar")
    with pytest.raises(TaskError, match=r"Task c has its archive at /elsewhere/archive\.tar, outside of the set"):
        save(tmp_path, [a_member(tmp_path, "b"), replace(stray, task=replace(stray.task, repository=outside))])
    assert content(tmp_path) == before

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, [a_member(tmp_path, "b")])
    assert content(tmp_path) == before


def test_a_level_may_be_the_first_of_several(tmp_path: Path) -> None:
    one = a_member(tmp_path, "a", "repair", "box")
    assert one.at("none,report").instruction == one.levels["report"]
    with pytest.raises(TaskError, match="no statement at level 'none,other'"):
        one.at("none,other")


def test_the_manifest_tells_what_there_is_and_where_it_is_from(tmp_path: Path) -> None:
    kinds = [("a", "repair", "box"), ("b", "pair", "box"), ("c", "repair", "ball")]
    save(tmp_path, [a_member(tmp_path, *one) for one in kinds], [ORIGIN])
    told = json.loads((tmp_path / MANIFEST).read_text())
    assert (told["format"], told["tasks"]) == ("patchgrad set 1", 3)
    assert told["counts"]["kind"] == {"pair": 1, "repair": 2}
    assert told["counts"]["package"] == {"ball": 1, "box": 2}
    assert told["sha256"] == {TASKS: digest((tmp_path / TASKS).read_bytes())}
    assert sorted(told["archives"]) == sorted(path.stem for path in (tmp_path / "archives").iterdir())
    assert read_origins(tmp_path) == [ORIGIN]
    save(tmp_path, [], [replace(ORIGIN, tasks=9), replace(ORIGIN, name="ball")])
    assert [(origin.name, origin.tasks) for origin in read_origins(tmp_path)] == [("ball", 3), ("box", 9)], "the later word holds"


# --- what is refused -----------------------------------------------------------------------------


def test_a_row_with_its_archive_outside_of_the_set_is_refused(tmp_path: Path) -> None:
    row = row_of(a_member(tmp_path, "a"), tmp_path)
    for place in ("/etc/passwd", "../other/archive.tar", "archives/../../x.tar"):
        (tmp_path / TASKS).unlink(missing_ok=True)
        append(tmp_path / TASKS, row | {"repository": row["repository"] | {"location": place}})
        with pytest.raises(TaskError, match="outside of the set: it is refused"):
            load_set(tmp_path)


def test_an_id_may_stand_for_one_task_only(tmp_path: Path) -> None:
    for _ in range(2):
        append(tmp_path / TASKS, row_of(a_member(tmp_path, "a"), tmp_path))
    with pytest.raises(TaskError, match="has more than one task a"):
        members(tmp_path)


def test_a_bad_row_goes_to_who_asks_and_stays_where_it_is(tmp_path: Path) -> None:
    """Also one of a shape that no task has, and two with one id: nobody knows which of them is meant."""
    one, two = save(tmp_path, [a_member(tmp_path, "a"), a_member(tmp_path, "b")])
    shape = {**row_of(one, tmp_path), "id": ["a"]}
    words = {**row_of(one, tmp_path), "id": "c", "levels": {"report": 3}}
    bad = [json.dumps(shape), json.dumps(words), "{torn", "3", json.dumps({**row_of(one, tmp_path), "output": "another"})]
    with (tmp_path / TASKS).open("a") as file:
        file.write("".join(f"{line}\n" for line in bad))
    refused = Refused()
    assert members(tmp_path, refused) == [two]
    assert len(refused.errors) == 5
    assert [member.task.id for member in save(tmp_path, [a_member(tmp_path, "d")])] == ["b", "d"]
    assert (tmp_path / TASKS).read_text().splitlines()[3:] == bad


def test_a_broken_set_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="does not exist"):
        load_set(tmp_path)
    append(tmp_path / TASKS, {"id": "x", "levels": {"report": "words"}})
    with pytest.raises(TaskError, match=r"is no task .'checks'"):
        load_set(tmp_path)
    (tmp_path / TASKS).write_text("{]\n")
    with pytest.raises(TaskError, match="broken in line 1"):
        load_set(tmp_path)
    for text in ("{}", "[", '{"origins": [{"kind": "x"}]}', '{"origins": 3}'):
        (tmp_path / MANIFEST).write_text(text)
        with pytest.raises(TaskError, match="is no manifest"):
            read_origins(tmp_path)


def test_a_line_that_a_killed_writer_left_unfinished_is_passed_over_and_cut_off(tmp_path: Path) -> None:
    append(tmp_path / TASKS, row_of(a_member(tmp_path, "a"), tmp_path))
    with (tmp_path / TASKS).open("a") as file:
        file.write('{"id": "half a ro')
    assert [task.id for task in load_set(tmp_path)] == ["a"]
    append(tmp_path / TASKS, row_of(a_member(tmp_path, "b"), tmp_path))
    assert [task.id for task in load_set(tmp_path)] == ["a", "b"]


# --- what holds for all of them ------------------------------------------------------------------

WORDS = st.text(max_size=12)
TESTS = st.lists(WORDS, max_size=3).map(tuple)
REPOSITORIES = st.builds(Repository, st.just("archive"), st.just("archives/a.tar"), WORDS, WORDS) | st.builds(
    Repository, st.sampled_from(["git", "image"]), WORDS, WORDS, WORDS
)
CHECKS = st.builds(Checks, TESTS, TESTS, st.lists(st.builds(HiddenFile, WORDS, WORDS), max_size=2).map(tuple), TESTS, TESTS, WORDS, WORDS)
LIMITS, NAMED = st.builds(Limits, memory=st.integers(0)), st.dictionaries(WORDS, WORDS, max_size=3)
MEMBERS = st.builds(Member, st.builds(Task, WORDS, WORDS, REPOSITORIES, CHECKS, TESTS, TESTS, LIMITS, NAMED), NAMED, WORDS, WORDS)


@given(MEMBERS)
def test_a_member_is_the_same_after_it_was_a_row(member: Member) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if member.task.repository.kind == "archive":
            placed = replace(member.task.repository, location=str(folder / member.task.repository.location))
            member = replace(member, task=replace(member.task, repository=placed))
        assert save(folder, [member]) == members(folder) == [member]


LINES = st.lists(st.sampled_from(["a", "b = 1", "", " ", "é\f", "\x1c", "c\r"]), max_size=8)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_patch_between_two_texts_is_one_that_git_applies(old: list[str], new: list[str], ends: bool, will_end: bool) -> None:
    before, after = "\n".join(old) + "\n" * ends, "\n".join(new) + "\n" * will_end
    patch = unified("deep/a b.py", before, after)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "deep/a b.py")
        path.parent.mkdir()
        path.write_bytes(before.encode())
        if patch and before and after:
            subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch.encode(), cwd=name, check=True, capture_output=True)
            assert path.read_bytes() == after.encode()
        else:
            assert before == after or not (before and after)


def test_a_patch_knows_a_file_without_a_last_line_end() -> None:
    assert unified("a.py", "x = 1", "x = 2\n") == "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n\\ No newline at end of file\n+x = 2\n"
