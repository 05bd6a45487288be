"""Histories as they are found: any text in a message, any date, and repositories that belong to somebody else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.errors import TaskError
from patchgrad.tasks.git import git
from patchgrad.tasks.history import open_clone
from patchgrad.tasks.history.clone import Commit
from patchgrad.tasks.history.environments import month
from patchgrad.tasks.history.split import split
from patchgrad.tasks.history.wording import cleaned
from patchgrad.tasks.projects import open_project

A_DAY = "1700000000 +0000"


class Raw:
    """A repository whose commits are written byte by byte, so that they can be what git's own commands would not make."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tip = folder, ""
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, stdin: bytes = b"") -> str:
        done = subprocess.run(["git", "-C", str(self.folder), *words], input=stdin, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def commit(self, text: bytes, date: str = A_DAY, files: dict[str, str] | None = None) -> str:
        for path, content in (files or {}).items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(content)
        self.git("add", "-A")
        parent = f"parent {self.tip}\n" if self.tip else ""
        who = f"author a <a@example.org> {A_DAY}\ncommitter a <a@example.org> {date}\n"
        commit = f"tree {self.git('write-tree')}\n{parent}{who}\n".encode() + text
        self.tip = self.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=commit)
        self.git("update-ref", "refs/heads/main", self.tip)
        return self.tip

    def commits(self) -> dict[str, Commit]:
        return {commit.sha: commit for commit in open_clone(str(self.folder), self.folder).commits()}


@pytest.fixture
def raw(tmp_path: Path) -> Raw:
    made = Raw(tmp_path / "raw")
    made.commit(b"Begin", files={"box.py": "A = 1\n", "test_box.py": "def test_a():\n    pass\n"})
    return made


# --- messages ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Values\x1e of a \x1f record",
        "\x1e\x1f\x1e\x1f\x1f",
        f"{'0' * 40}\n\n1\t1\tbox.py",
        "1\t1\tbox.py",
        "Feeds\x0c and \x0b tabs \x85 and \u2028 separators",
        "",
    ],
)
def test_any_text_may_stand_in_a_message(raw: Raw, text: str) -> None:
    first = raw.tip
    odd = raw.commit(text.encode(), files={"box.py": "A = 2\n", "tests/a b\tc.txt": "1\n2\n"})
    last = raw.commit(b"End", files={"box.py": "A = 3\n"})
    found = raw.commits()
    assert list(found) == [last, odd, first]
    assert found[odd].text.strip("\n") == text.strip("\n")
    assert (found[odd].parents, found[odd].paths) == ((first,), {"box.py": 2, "tests/a b\tc.txt": 2})
    assert found[last].paths == {"box.py": 2}


def test_bytes_of_no_encoding_and_a_null_byte_in_a_message_hide_no_commit(raw: Raw) -> None:
    latin, null = raw.commit(b"caf\xe9", files={"box.py": "A = 2\n"}), raw.commit(b"before\0after", files={"box.py": "A = 3\n"})
    found = raw.commits()
    assert [found[sha].paths for sha in (latin, null)] == [{"box.py": 2}, {"box.py": 2}]
    assert found[latin].text.strip() == "caf\ufffd"


@settings(max_examples=3, deadline=None)
@given(st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20), min_size=1, max_size=3))
def test_a_history_has_its_commits_whatever_they_say(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    made = Raw(tmp_path_factory.mktemp("texts"))
    named = [made.commit(text.encode(), files={"box.py": f"A = {number}\n"}) for number, text in enumerate(texts)]
    assert [commit.sha for commit in made.commits().values()] == named[::-1]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("clamp gives \x1f wrong \x1e values\n\nclamp(1, 2, 3) gave 1.", "Clamp gives wrong values\n\nclamp(1, 2, 3) gave 1."),
        ("\x1b[31mclamp\x1b[0m gives\x07 wrong values\r\n\r\nIt gave 1.\r\n", "Clamp gives wrong values\n\nIt gave 1."),
        ("clamp\x0cgives\x85wrong values", "Clamp gives wrong values"),
        ("\tclamp of a\ttab", "Clamp of a\ttab"),
    ],
)
def test_what_an_agent_is_told_has_no_control_characters(text: str, left: str) -> None:
    assert cleaned(text) == left


# --- dates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("date", ["999999999999 +0000", "99999999999999999999999 +0000", "253402300799 +0000", "once", ""])
def test_a_commit_without_a_date_that_can_be_is_left_out_by_that_reason(raw: Raw, date: str) -> None:
    odd = raw.commit(b"Another value is right", date, {"box.py": "A = 2\n", "test_box.py": "def test_b():\n    pass\n"})
    last = raw.commit(b"End", files={"box.py": "A = 3\n"})
    found = raw.commits()
    assert set(found) >= {odd, last}
    assert split(open_clone(str(raw.folder), raw.folder), found[odd]) == "no date"
    assert (found[odd].day, month(found[odd].when)) == ("", "")


def test_far_dates_that_can_be_have_a_day_and_a_month(raw: Raw) -> None:
    far = raw.commit(b"Far", "250000000000 +0000", {"box.py": "A = 2\n"})
    early = raw.commit(b"Early", "0 +0000", {"box.py": "A = 3\n"})
    found = raw.commits()
    assert (found[far].day, month(found[far].when)) == ("9892-03-08", "9892-04-01")
    assert (found[early].day, month(found[early].when)) == ("1970-01-01", "1970-02-01")


def test_a_commit_without_a_date_is_in_no_span_of_days(raw: Raw) -> None:
    odd = raw.commit(b"Odd", "999999999999 +0000", {"box.py": "A = 2\n"})
    clone = open_clone(str(raw.folder), raw.folder)
    for days in (("2000-01-01", ""), ("", "2100-01-01")):
        assert [commit.sha for commit in clone.commits(*days)] == [sha for sha in raw.commits() if sha != odd]


# --- owners --------------------------------------------------------------------------------------


def work_tree(raw: Raw) -> str:
    return str(raw.folder)


def bare(raw: Raw) -> str:
    subprocess.run(["git", "clone", "-q", "--bare", str(raw.folder), f"{raw.folder}.git"], check=True)
    return f"{raw.folder}.git"


def linked(raw: Raw) -> str:
    raw.git("worktree", "add", "-q", f"{raw.folder}-linked", "-b", "other")
    return f"{raw.folder}-linked"


@pytest.mark.parametrize("source", [work_tree, bare, linked])
def test_a_repository_of_another_owner_is_named_with_what_to_do(
    raw: Raw, source: Callable[[Raw], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = source(raw)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own way to have one without another user
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    with pytest.raises(TaskError, match="belongs to another user") as caught:
        open_clone(named, tmp_path)
    assert "git config --global --add safe.directory /" in str(caught.value)
    assert str(raw.folder) in str(caught.value)
    assert "no git repository" not in str(caught.value)


def test_tasks_are_not_planted_in_a_work_tree_of_another_owner_either(raw: Raw, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    with pytest.raises(TaskError, match=r"belongs to another user.*safe\.directory"):
        open_project(str(raw.folder), tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("source", ["{}", "file://{}/.git"])
def test_a_folder_that_was_given_away_is_one_of_another_owner(
    raw: Raw, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for path in (raw.folder, *raw.folder.rglob("*")):
        os.lchown(path, 1234, 1234)
    with pytest.raises(TaskError, match=r"belongs to another user.*safe\.directory"):
        open_clone(source.format(raw.folder), tmp_path)


def test_a_repository_that_git_cannot_read_is_told_with_gits_reason(raw: Raw, tmp_path: Path) -> None:
    (raw.folder / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 99\n")
    with pytest.raises(TaskError, match="99"):
        open_clone(str(raw.folder), tmp_path)


def test_a_machine_without_git_is_told(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TaskError, match="there is no git on this machine"):
        git(raw.folder, "status")
