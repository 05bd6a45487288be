"""Tasks from a git history: which commits become one, what the agent sees and is told, and what is said of a history that gives none."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.tasks.caches import a_cache

from patchgrad.cli import main
from patchgrad.errors import TaskError
from patchgrad.grading.grade import grade
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.sandboxes.landlock import LandlockSandboxes
from patchgrad.tasks.archive import open_archive
from patchgrad.tasks.evaluation_sets import repository_of
from patchgrad.tasks.history import Wish
from patchgrad.tasks.history.environments import foreign, month
from patchgrad.tasks.history.wording import cleaned, guessed, says_something
from patchgrad.tasks.making import mine_set
from patchgrad.tasks.projects.setup_py import read_setup
from patchgrad.tasks.sets import Member, load_set, members, read_origins

SHAPES = '''"""Shapes."""

__version__ = "1.0"


def clamp(value, low, high):
    """The value, moved into the range."""
    if value < low:
        return low
    return value


def area(width, height=1):
    return width * height


def label(name):
    return name.strip()


def even(number):
    return number % 2
'''
TESTS = """import os

import pytest

import shapes


def test_clamp():
    assert shapes.clamp(1, 2, 4) == 2


def test_area():
    assert shapes.area(2, 3) == 6


def test_label():
    assert shapes.label(" a ") == "a"
"""


class Repository:
    """A git repository with a history that a test writes, a day a commit."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.day = folder, 0
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        when = f"2024-03-{self.day + 1:02}T12:00:00+0000"
        env = {**os.environ, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "GIT_CONFIG_GLOBAL": os.devnull}
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", "-C", str(self.folder), *who, *arguments], env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, text: str, files: Mapping[str, str] | None = None) -> str:
        self.day += 1
        for path, content in (files or {}).items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", text)
        return self.git("rev-parse", "HEAD")

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    def change(self, text: str, old: str, new: str, test: str = "", **others: str) -> str:
        """A commit that puts one text of the module for another, and adds a test."""
        source, tests = self.read("shapes.py"), self.read("tests/test_shapes.py")
        assert old in source
        files = {"shapes.py": source.replace(old, new), "tests/test_shapes.py": tests + (f"\n\n{test}\n" if test else "")}
        return self.commit(text, files | {path.replace("__", "."): content for path, content in others.items()})


def started(folder: Path) -> Repository:
    repository = Repository(folder)
    about = '[project]\nname = "shapes"\nversion = "1.0"\nlicense = "MIT"\n[tool.pytest.ini_options]\naddopts = "--no-such-option"\n'
    first = {"shapes.py": SHAPES, "tests/test_shapes.py": TESTS, "pyproject.toml": about, "CHANGES.md": "# Changes\n"}
    repository.commit("The first state", first)
    return repository


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, dict[str, str]]:
    """A repository with a commit of each kind, and their names by kind."""
    repository = started(tmp_path_factory.mktemp("history") / "shapes")
    sha: dict[str, str] = {}
    sha["fix"] = repository.change(
        "fix(clamp): Values above the upper bound are moved to it (#12)\n\nThey came back as they were.\n\nSigned-off-by: A <a@b.org>",
        "        return low\n    return value",
        "        return low\n    return min(value, high)",
        "def test_clamp_from_above():\n    assert shapes.clamp(9, 2, 4) == 4",
        CHANGES__md="# Changes\n\n- Values above the upper bound are moved to it\n",
    )
    sha["name"] = repository.change(
        "Another way to look at boxes of any size",
        "def label(",
        "def room_inside(a, b, c):\n    return a * b * c\n\n\ndef label(",
        "def test_room():\n    assert shapes.room_inside(1, 2, 3) == 6",
    )
    sha["no tests"] = repository.change("Shorter", "    return width * height", "    product = width * height\n    return product")
    sha["words"] = repository.change("Say it better", "moved into the range", "moved into its range", "def test_more():\n    pass")
    sha["version"] = repository.change("1.1", '"1.0"', '"1.1"', "def test_version():\n    assert shapes.__version__")
    sha["says nothing"] = repository.change(
        "fix bug", "return number % 2", "return number % 2 == 0", "def test_even():\n    assert shapes.even(4) is True"
    )
    sha["leak"] = repository.change(
        "Labels of several words: return ' '.join(name.split()) now",
        "    return name.strip()",
        "    return ' '.join(name.split())",
        "def test_words():\n    assert shapes.label('a  b') == 'a b'",
    )
    sha["flaky"] = repository.change(
        "Areas of negative widths are told as positive numbers",
        "    product = width * height",
        "    product = abs(width * height)",
        "def test_negative():\n    assert shapes.area(-2, 3) == 6 and os.environ['PYTHONHASHSEED'] == '0'",
    )
    sha["large"] = repository.change(
        "Very many numbers",
        "def even(",
        "\n".join(f"N{n} = {n}" for n in range(600)) + "\n\n\ndef even(",
        "def test_n():\n    assert shapes.N5",
    )
    sha["survives"] = repository.change(
        "Product in one line of code again",
        "    product = abs(",
        "    product = +abs(",
        "def test_again():\n    assert shapes.area(1) == 1",
    )
    repository.git("checkout", "-q", "-b", "side", "HEAD~1")
    sha["docs"] = repository.commit("More words in the list of changes", {"README.md": "shapes"})
    repository.git("checkout", "-q", "main")
    repository.day += 1
    repository.git("merge", "-q", "--no-ff", "-m", "Merge side", "side")
    return repository, sha


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def made(history: tuple[Repository, dict[str, str]], kept: Path) -> Path:
    mine_set(str(history[0].folder), kept / "set", Wish(), kept, "by hand")
    return kept / "set"


@pytest.fixture(scope="module")
def by_kind(history: tuple[Repository, dict[str, str]], made: Path) -> dict[str, Member]:
    names = {sha: kind for kind, sha in history[1].items()}
    return {names[member.task.tags["commit"]]: member for member in members(made)}


def test_commits_that_repair_and_test_become_tasks_and_each_other_is_counted(made: Path, by_kind: Mapping[str, Member]) -> None:
    assert sorted(by_kind) == ["fix", "leak", "says nothing"]
    assert dict(read_origins(made)[0].rejected) == {
        "first commit": 1,
        "guesses a name": 1,
        "merge": 1,
        "no Python": 1,
        "no fail-to-pass": 1,
        "no tests": 1,
        "only a version": 1,
        "only comments, documentation or form": 1,
        "too large": 1,
        "unstable": 1,
    }


def test_a_task_is_the_parent_commit_and_its_tests_are_hidden(
    history: tuple[Repository, dict[str, str]], by_kind: Mapping[str, Member]
) -> None:
    member = by_kind["fix"]
    task, files = member.task, open_archive(member.task.repository)
    assert files["shapes.py"].decode() == SHAPES
    assert files["tests/test_shapes.py"].decode() == TESTS
    assert files["CHANGES.md"] == b"# Changes\n"
    assert not [path for path in files if path.startswith(".git")]
    assert b"no-such-option" not in files["pytest.ini"]
    assert task.checks.fail_to_pass == ("tests/test_shapes.py::test_clamp_from_above",)
    assert set(task.checks.pass_to_pass) == {f"tests/test_shapes.py::test_{name}" for name in ("clamp", "area", "label")}
    assert "test_clamp_from_above" in task.checks.patch
    assert "tests/" not in member.repair
    assert {"shapes.py", "CHANGES.md"} == {line[6:] for line in member.repair.splitlines() if line.startswith("+++")}
    tags = task.tags
    assert tags["commit"] == history[1]["fix"]
    assert (tags["source"], tags["kind"], tags["split"], tags["created_at"]) == ("history", "history", "train", "2024-03-03")
    assert (tags["package"], tags["licence"], tags["version"], tags["level"]) == ("shapes", "MIT", "1.0", "report")
    assert (tags["files"], tags["lines"]) == ("2", "4")


def test_the_report_says_what_the_commit_says_and_not_who_or_which_number(by_kind: Mapping[str, Member]) -> None:
    report = by_kind["fix"].levels["report"]
    assert "Values above the upper bound are moved to it\n\nThey came back as they were.\n" in report
    assert "#12" not in report
    assert "b.org" not in report
    assert "#12" in by_kind["fix"].levels["as_written"]
    symptom = by_kind["fix"].levels["symptom"]
    assert ">>> shapes.clamp(9, 2, 4)\n    9" in symptom
    assert "Expected: `4`" in symptom


@pytest.mark.parametrize(("kind", "shown"), [("says nothing", "shapes.even(4)"), ("leak", "shapes.label('a  b')")])
def test_a_text_that_says_nothing_or_too_much_gives_way_to_the_symptom(by_kind: Mapping[str, Member], kind: str, shown: str) -> None:
    member = by_kind[kind]
    assert member.task.tags["statement"] == "symptom"
    assert member.levels["report"] == member.levels["symptom"]
    assert shown in member.levels["report"]
    assert "split()" not in member.levels["report"]


def test_the_set_is_one_that_everything_else_can_read(made: Path) -> None:
    assert len(load_set(made)) == 3
    assert {"as_written", "report", "symptom"} <= set(members(made)[0].levels)
    assert len(json.loads((made / "manifest.json").read_text())["archives"]) == 3
    origin = read_origins(made)[0]
    assert (origin.kind, origin.name, origin.tasks, origin.location) == ("git", "shapes", 3, "")
    assert len(origin.address) == 40


@pytest.fixture(scope="module")
def boxes(made: Path) -> Iterator[tuple[asyncio.Runner, BwrapSandboxes | LandlockSandboxes]]:
    async def best() -> BwrapSandboxes | LandlockSandboxes:
        try:
            found = BwrapSandboxes(cells=2)
            await (await found.open(load_set(made)[0])).close()
        except Exception:
            return LandlockSandboxes()
        return found

    with asyncio.Runner() as runner:
        found = runner.run(best())
        yield runner, found
        runner.run(found.close())


def test_the_grader_fails_the_parent_and_passes_the_repair(
    by_kind: Mapping[str, Member], boxes: tuple[asyncio.Runner, BwrapSandboxes | LandlockSandboxes]
) -> None:
    runner, found = boxes
    for member in by_kind.values():
        assert runner.run(grade(member.task, member.repair, found)).resolved
        parent = runner.run(grade(member.task, "", found, run_empty=True))
        assert not parent.resolved
        assert [test.satisfied for test in parent.tests] == [test.expected == "pass_to_pass" for test in parent.tests]


# --- again, in parts, and for other ends ---------------------------------------------------------


def test_the_same_call_gives_the_same_bytes_wherever_it_was_interrupted(
    history: tuple[Repository, dict[str, str]], made: Path, tmp_path: Path
) -> None:
    def stop(tasks: int, tried: int, fate: str) -> None:
        if tasks == 2:
            raise KeyboardInterrupt

    source = str(history[0].folder)
    with pytest.raises(KeyboardInterrupt):
        mine_set(source, tmp_path / "set", Wish(), tmp_path, "by hand", stop)
    assert not (tmp_path / "set").exists()
    mine_set(source, tmp_path / "set", Wish(workers=1), tmp_path, "by hand")
    for name in ("tasks.jsonl", "manifest.json"):
        assert (tmp_path / "set" / name).read_bytes() == (made / name).read_bytes()


def test_what_is_known_is_not_run_again(
    history: tuple[Repository, dict[str, str]], made: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_run(*_: object) -> None:
        raise AssertionError("a test was run")

    monkeypatch.setattr("patchgrad.tasks.making.LocalRunner.__call__", no_run)
    told: list[str] = []
    wish = Wish(count=2)
    mined, _ = mine_set(str(history[0].folder), kept / "other", wish, kept, tell=lambda tasks, tried, fate: told.append(fate))
    assert len(mined.members) == 2
    assert told[-1] == "task"
    assert mined.members == tuple(replace(m) for m in mined.members)
    assert told.count("task") == 2


def test_days_bound_what_is_looked_at_and_a_bare_repository_will_do(
    history: tuple[Repository, dict[str, str]], kept: Path, tmp_path: Path
) -> None:
    subprocess.run(["git", "clone", "-q", "--bare", str(history[0].folder), str(tmp_path / "shapes.git")], check=True)
    mined, _ = mine_set(str(tmp_path / "shapes.git"), tmp_path / "set", Wish(since="2024-03-02", until="2024-03-03"), kept)
    assert [member.task.tags["commit"] for member in mined.members] == [history[1]["fix"]]
    assert sum(mined.rejected.values()) == 1


def test_of_slow_test_files_only_the_tests_that_count_are_run(
    history: tuple[Repository, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchgrad.tasks.history.trial.WHOLE", 0.0)
    mined, _ = mine_set(str(history[0].folder), tmp_path / "set", Wish(until="2024-03-03"), tmp_path)
    checks = mined.members[0].task.checks
    assert checks.command == ("pytest", *checks.fail_to_pass, *checks.pass_to_pass)


def test_a_git_address_is_cloned_whole(history: tuple[Repository, dict[str, str]], kept: Path, tmp_path: Path) -> None:
    mined, _ = mine_set(f"file://{history[0].folder}", tmp_path / "set", Wish(count=1), kept)
    assert mined.members
    assert read_origins(tmp_path / "set")[0].location == f"file://{history[0].folder}"
    again, _ = mine_set(f"file://{history[0].folder}", tmp_path / "set", Wish(count=1), kept)
    assert again.members == mined.members


def test_a_repository_that_models_are_measured_on_gives_tasks_for_that_only(
    history: tuple[Repository, dict[str, str]], kept: Path, tmp_path: Path
) -> None:
    subprocess.run(["git", "clone", "-q", str(history[0].folder), str(tmp_path / "flask")], check=True)
    subprocess.run(["git", "-C", str(tmp_path / "flask"), "remote", "set-url", "origin", "https://example.org/pallets/flask"], check=True)
    with pytest.raises(TaskError, match="say --evaluation to make tasks that are marked as such"):
        mine_set(str(tmp_path / "flask"), tmp_path / "set", Wish(), kept)
    mine_set(str(tmp_path / "flask"), tmp_path / "set", Wish(evaluation=True), kept)
    assert {member.task.tags["split"] for member in members(tmp_path / "set")} == {"evaluation"}


def test_a_mined_task_is_on_the_side_of_its_package(
    history: tuple[Repository, dict[str, str]], kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchgrad.tasks.history.split_of", lambda name: "held_out")
    mine_set(str(history[0].folder), tmp_path / "set", Wish(), kept)
    assert {member.task.tags["split"] for member in members(tmp_path / "set")} == {"held_out"}


def test_the_verb_makes_a_set(
    history: tuple[Repository, dict[str, str]],
    kept: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept.parent))
    words = ["tasks", "mine", str(history[0].folder), "--out", str(tmp_path / "set")]
    assert main([*words, "--count", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["tasks"]) == 3
    assert told["rejected"]["merge"] == 1
    assert main([*words, "--count", "9"]) == 1
    assert "shapes: 3 tasks of 13 commits" in capsys.readouterr().out


# --- what cannot be mined ------------------------------------------------------------------------


def nothing(folder: Path) -> str:
    return str(folder / "nowhere")


def plain(folder: Path) -> str:
    (folder / "plain").mkdir()
    (folder / "plain" / "a.py").write_text("")
    return str(folder / "plain")


def empty(folder: Path) -> str:
    return str(Repository(folder / "empty").folder)


def untested(folder: Path) -> str:
    repository = Repository(folder / "untested")
    repository.commit("Begin", {"box.py": "A = 1\n"})
    return str(repository.folder)


def unfit(folder: Path) -> str:
    return str(started(folder / "unfit").folder)


def measured(folder: Path) -> str:
    repository = started(folder / "measured")
    repository.git("remote", "add", "origin", "git@example.org:pallets/flask.git")
    return str(repository.folder)


def vanished(folder: Path) -> str:
    return f"file://{folder}/no-such.git"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (nothing, "there is no such folder, and it is no address of a git repository"),
        (plain, "it is no git repository"),
        (empty, "no commits"),
        (untested, "has no tests"),
        (unfit, "none of its 1 commits is a task (1 first commit)"),
        (measured, "pallets/flask is one of the repositories that SWE-bench measures models on"),
        (vanished, "cannot be cloned"),
    ],
)
def test_what_gives_no_tasks_is_said_in_a_sentence_and_no_set_is_left(
    source: Callable[[Path], str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_cache(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["tasks", "mine", source(tmp_path), "--out", str(tmp_path / "set")]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith("patchgrad: ")
    assert says in told
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("words", [["--since", "2024-13-01"], ["--until", "yesterday"], ["--count", "0"], ["--runs", "0"]])
def test_words_that_make_no_sense_are_refused(words: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "mine", str(tmp_path), "--out", str(tmp_path / "set"), *words]) == 2
    assert words[0] in capsys.readouterr().err


def test_days_without_commits(history: tuple[Repository, dict[str, str]], tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no commits between 2030-01-01 and its last"):
        mine_set(str(history[0].folder), tmp_path / "set", Wish(since="2030-01-01"), tmp_path)


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("fix(slug): Keep dots (#12)\n\nSigned-off-by: A <a@b.c>", "Keep dots"),
        ("Fixed #123 -- Made clamp() work", "Made clamp() work"),
        ("Keep dots, closes #12 and #13.", "Keep dots"),
        ("Keep dots\n\nThis resolves #4.\nThanks to @joe for the report.\nhttps://example.org/4", "Keep dots"),
        ("Keep dots\n\n* Keep dots\n* Apply suggestions from review\n* add tests\n* Also at the end", "Keep dots\n\n* Also at the end"),
        ("Keep dots\n\nslug.py: new pattern\nM tests/test_slug.py", "Keep dots"),
        ("Undo what #7 did to area()", "Undo what an earlier issue did to area()"),
        (
            "Keep dots\n\nThey are lost at\nthe end. Adds test_dots and\ntest_more.\n\nChange-Id: I0",
            "Keep dots\n\nThey are lost at\nthe end.",
        ),
        ("Keep dots\n\nAs in the #7 work,\nbut later (#8).", "Keep dots\n\nAs in the earlier work,\nbut later."),
        ("Use @property for areas", "Use @property for areas"),
    ],
)
def test_a_commit_text_is_told_without_who_where_and_which_number(text: str, left: str) -> None:
    assert cleaned(text) == left


def test_words_that_any_commit_may_have_say_nothing() -> None:
    assert not says_something("Fix the tests and update version 1.2.3 of docs")
    assert says_something("Dots at the end of a slug are lost")


def test_a_name_is_guessed_unless_it_is_told_or_there_already() -> None:
    old, new = b"def area(a):\n    return a\n", b"def area(a, unit=None):\n    return a\n\n\ndef volume(a):\n    return a\n"
    tests = "+    assert box.volume(1) == box.area(1, unit='m')\n"
    repaired = {"box.py": (old, new)}
    assert guessed(repaired, {"box.py": old}, tests, [], "") == ["unit", "volume"]
    assert guessed(repaired, {"box.py": old}, tests, [], "A volume with a unit") == []
    assert guessed(repaired, {"box.py": old, "notes.txt": b"volume, unit"}, tests, [], "") == []
    failures = ["AttributeError: module 'box' has no attribute 'volume'", "AttributeError: 'NoneType' object has no attribute 'area'"]
    assert guessed(repaired, {"box.py": old, "notes.txt": b"volume, unit"}, tests, failures, "") == ["volume"]


def test_repositories_that_models_are_measured_on_are_known_by_address_or_name() -> None:
    assert repository_of("https://example.org/Django/django.git/") == "django/django"
    assert repository_of("Scikit_Learn") == "scikit-learn/scikit-learn"
    assert repository_of("https://example.org/me/requests-mock") == ""


def test_what_a_commit_needs_is_of_its_month() -> None:
    assert month(datetime(2024, 12, 5, tzinfo=UTC)) == "2025-01-01"
    files = {"box/a.py": b"import six, os.path as p\nfrom yaml import load\nfrom box.b import c\nfrom . import d\n"}
    assert foreign(files) == {"six", "yaml"}


def test_an_old_setup_file_is_read_and_not_run() -> None:
    text = "raise SystemExit\nneeds = ['six']\nsetup(name='box', version=find(), install_requires=needs, extras_require={'t': ['mock']})"
    found = read_setup(text)
    assert (found.name, found.version, found.requires, found.extras) == ("box", "", ("six",), ("mock",))
    assert read_setup("print 'old'").name == ""
