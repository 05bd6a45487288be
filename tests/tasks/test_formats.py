"""A row that is imported and exported is the row; a member that is exported and imported is the member."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.tasks import format_rows

from patchgrad.errors import TaskError
from patchgrad.patches import outside, reverse
from patchgrad.tasks.formats import FORMATS, Row, detect, named, to_member, to_row
from patchgrad.tasks.sets import Member
from patchgrad.values import Checks, Repository, Task

PLAIN: dict[str, Any] = {
    "repo": "owner/box",
    "instance_id": "owner__box-7",
    "base_commit": "c0ffee",
    "patch": format_rows.PATCHES[0],
    "test_patch": format_rows.PATCHES[1],
    "problem_statement": "It is 1.",
    "hints_text": None,
    "created_at": "2024-01-02",
    "version": "1.0",
    "FAIL_TO_PASS": '["t.py::a"]',
    "PASS_TO_PASS": '["t.py::b", "t.py::c"]',
    "environment_setup_commit": "c0ffee",
}


def read(row: dict[str, Any], format: str = "") -> Member:
    placed = Row(row, "rows.jsonl line 3")
    return to_member(named(format) if format else detect(placed), placed)


def read_or_refused(row: dict[str, Any], format: str) -> Member:
    """The member, unless one more column has a name that means something, and a value that cannot mean it: then it is named."""
    try:
        return read(row, format)
    except TaskError as error:
        more = row.keys() - format_rows.COLUMNS[format].keys()
        assume(not any(f"column {name} " in str(error) for name in more))
        raise


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_row_comes_back_the_same(format: str, data: st.DataObject) -> None:
    row = data.draw(format_rows.rows(format))
    assert json.dumps(to_row(FORMATS[format], read_or_refused(row, format))) == json.dumps(row)


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=60, deadline=None)
@given(member=format_rows.members)
def test_a_member_made_elsewhere_comes_back_the_same(format: str, member: Member) -> None:
    row = to_row(FORMATS[format], member)
    assert detect(Row(row, "here")).name == format
    assert read(json.loads(json.dumps(row)), format) == member


@settings(max_examples=60, deadline=None)
@given(data=st.data(), first=st.sampled_from(list(FORMATS)), second=st.sampled_from(list(FORMATS)))
def test_a_row_survives_the_way_through_another_format(data: st.DataObject, first: str, second: str) -> None:
    row = data.draw(format_rows.rows(first))
    there = to_row(FORMATS[second], read_or_refused(row, first))
    assert json.dumps(to_row(FORMATS[first], read(there, second))) == json.dumps(row)


# --- what the columns mean ------------------------------------------------------------------------


def test_swe_bench() -> None:
    member = read(PLAIN)
    task = member.task
    assert task.repository == Repository("git", "https://github.com/owner/box.git", "c0ffee")
    assert task.checks == Checks(("t.py::a",), ("t.py::b", "t.py::c"), patch=PLAIN["test_patch"])
    assert (task.instruction, member.levels, member.repair) == ("It is 1.", {"report": "It is 1."}, PLAIN["patch"])
    assert (task.tags["source"], task.tags["package"], task.tags["split"]) == ("swebench", "owner/box", "evaluation")
    assert task.tags["column.hints_text"] == "null"


def test_version_5_names_an_image_and_how_it_is_judged() -> None:
    digest = f"sha256:{'a' * 64}"
    row = {**PLAIN, "image": f"x/y:z@{digest}", "eval_script": "tox", "log_parser": "parse_log_tox", "split": "test"}
    task = read(row).task
    assert task.repository == Repository("image", "x/y:z", digest)
    assert (task.checks.command, task.checks.parser) == (("bash", "-c", "tox"), "parse_log_tox")
    assert task.tags["split"] == "evaluation"


def test_a_task_of_an_evaluation_repository_is_evaluation_whatever_is_asked_for() -> None:
    lists = {"FAIL_TO_PASS": ["t.py::a"], "PASS_TO_PASS": []}
    row = {name: value for name, value in {**PLAIN, **lists}.items() if name != "environment_setup_commit"}
    for repo, split in (("django/django", "evaluation"), ("getmoto/moto", "train")):
        placed = Row({**row, "repo": repo, "instance_id": f"{repo.replace('/', '__')}-1"}, "here")
        assert detect(placed).name == "swegym"
        assert to_member(detect(placed), placed, split="train").task.tags["split"] == split
    live = {**row, "test_cmds": ["pytest -rA"], "log_parser": "pytest"}  # SWE-bench-Live, which is for evaluation too
    assert read(live).task.tags["split"] == "evaluation"
    assert to_member(FORMATS["swebench"], Row(PLAIN, "here"), split="train").task.tags["split"] == "train"


def test_swe_rebench_says_its_packages_and_its_command() -> None:
    config = {
        "test_cmd": ["make", "make check"],
        "log_parser": "parse_log_jq",
        "packages": "requirements.txt",
        "pip_packages": ["six==1.17.0"],
    }
    row = {**PLAIN, "docker_image": "s/x:1", "install_config": config, "requirements": "attrs==26.1.0\n-e git+https://x\nfoo>=1\n"}
    task = read(row).task
    assert task.tags["source"] == "swerebench"
    assert task.packages == ("attrs==26.1.0", "six==1.17.0")
    assert (task.checks.command, task.checks.parser) == (("bash", "-c", "make\nmake check"), "parse_log_jq")
    assert read({**row, "image_name": "s/x:1", "language": "c"}).task.tags["source"] == "swerebench-v2"


def test_the_patch_of_swe_smith_is_the_bug() -> None:
    bug = format_rows.PATCHES[0]
    row = {
        "instance_id": "a__b.1234.f",
        "repo": "swesmith/a__b.1234",
        "patch": bug,
        "image_name": "i",
        "FAIL_TO_PASS": ["t::a"],
        "PASS_TO_PASS": [],
    }
    member = read(row)
    assert member.task.repository == Repository("image", "i", "", bug)
    assert "-a = 2\n+a = 1\n" in member.repair
    assert not member.task.checks.patch


def test_r2e_gym_has_its_tests_in_the_row() -> None:
    log = "== short test summary info ==\nPASSED r2e_tests/test_1.py::A::kept\nFAILED r2e_tests/test_1.py::mended - no"
    change = {"header": {"file": {"path": "box.py"}}, "old_file_content": "a = 1\n", "new_file_content": "a = 2\n"}
    test = {"header": {"file": {"path": "tests/test_box.py"}}, "old_file_content": "", "new_file_content": "x"}
    row = {
        "repo_name": "box",
        "docker_image": "names/box_final:c0ffee",
        "commit_hash": "c0ffee",
        "problem_statement": "[ISSUE]\nIt is 1.\n[/ISSUE]",
        "expected_output_json": json.dumps({"A.kept": "PASSED", "mended": "PASSED", "other": "FAILED"}),
        "execution_result_content": json.dumps(
            {"test_file_names": ["test_1.py"], "test_file_codes": ["def ..."], "old_commit_res_stdout": log}
        ),
        "parsed_commit_content": json.dumps({"file_diffs": [change, test]}),
    }
    member = read(row)
    assert member.task.instruction == "It is 1."
    assert (member.task.checks.fail_to_pass, member.task.checks.pass_to_pass) == (("mended",), ("A.kept",))
    assert member.task.checks.files[0].path == "r2e_tests/test_1.py"
    assert "+a = 2" in member.repair
    assert "tests" not in member.repair


def test_multi_swe_tells_the_issues_that_are_resolved() -> None:
    state = {"run": "FAIL", "test": "FAIL", "fix": "PASS"}
    row = {
        "org": "o",
        "repo": "b",
        "number": 7,
        "base": {"sha": "c0ffee"},
        "resolved_issues": [{"number": 5, "title": "Wrong", "body": "It is 1."}],
        "fix_patch": format_rows.PATCHES[0],
        "test_patch": "",
        "f2p_tests": {"a": state},
        "n2p_tests": {"n": state},
        "p2p_tests": {"p": state},
    }
    task = read(row).task
    assert (task.id, task.instruction) == ("o__b-7", "Wrong\n\nIt is 1.")
    assert (task.checks.fail_to_pass, task.checks.pass_to_pass) == (("a", "n"), ("p",))
    assert task.repository == Repository("git", "https://github.com/o/b.git", "c0ffee")


def test_nemotron_has_a_row_in_a_request() -> None:
    metadata = {"instance_id": "owner__box-7", "golden_patch": PLAIN["patch"], "instance_dict": json.dumps(PLAIN)}
    member = read({"responses_create_params": {"input": [], "metadata": metadata}, "agent_ref": {"name": "x"}})
    assert member.task.tags["source"] == "nemotron"
    assert member.task.checks == read(PLAIN).task.checks
    assert member.repair == PLAIN["patch"]


def test_an_edited_field_is_in_the_row() -> None:
    member = read(PLAIN)
    edited = replace(member, repair="", task=replace(member.task, packages=("six==1.17.0",)))
    row = to_row(FORMATS["swebench"], edited)
    assert row["patch"] == ""
    assert row["patchgrad_packages"] == '["six==1.17.0"]'
    assert read(row) == edited


def test_a_digest_that_the_row_has_not_is_filled_in_and_kept() -> None:
    row, digest = {**PLAIN, "image": "x/y:z"}, f"sha256:{'a' * 64}"
    member = to_member(FORMATS["swebench"], Row(row, "here"), {"x/y:z": digest})
    assert member.task.repository.digest == digest
    assert read(to_row(FORMATS["swebench"], member)) == member


# --- what is wrong is said in one sentence --------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("instance_id", "", "the column instance_id is missing or empty"),
        ("instance_id", 3, "the column instance_id holds 3, not text"),
        ("patch", ["x"], "the column patch holds ['x'], not text"),
        ("FAIL_TO_PASS", "t.py::a", "the column FAIL_TO_PASS is neither a list of tests nor the JSON text of one"),
        ("PASS_TO_PASS", [1], "the column PASS_TO_PASS holds [1], not a list of tests"),
        ("log_parser", ["x"], "the column log_parser has a log parser that is no text"),
        ("install_config", {"log_parser": 3}, "the column install_config has a log parser that is no text"),
        ("test_cmds", [None], "the column test_cmds has a test command that is no text"),
        ("eval_script", {"a": 1}, "the column eval_script has a test command that is no text"),
        ("install_config", "no", "the column install_config is neither an object nor the JSON text of one"),
        ("test_patch", "--- a/x\n+++ b/../y\n@@ -1 +1 @@\n-a\n+b\n", "reaches outside of the repository, to 'b/../y'"),
        ("patch", "diff --git a/.git/config b/.git/config\n", "reaches outside"),
        ("patchgrad_limits", "{", "the column patchgrad_limits is no JSON text"),
        ("patchgrad_limits", "{}x", "the column patchgrad_limits is no JSON text"),
        ("patchgrad_packages", '"six"', "its patchgrad_ columns make no task"),
        ("patchgrad_wings", "2", "there is no field wings of a task"),
    ],
)
def test_a_broken_column_is_named_with_its_place(column: str, value: object, says: str) -> None:
    with pytest.raises(TaskError) as refused:
        read({**PLAIN, column: value}, "swebench")
    assert str(refused.value).startswith("rows.jsonl line 3: ")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_columns_of_no_format_are_told() -> None:
    with pytest.raises(TaskError, match="the columns of no known format \\(question, answer\\); name one with --format: nemotron"):
        read({"question": "6 * 7", "answer": "42"})
    with pytest.raises(TaskError, match="There is no format swe-bench: choose from"):
        named("swe-bench")


def test_a_bug_that_cannot_be_undone_is_refused() -> None:
    row = {**PLAIN, "image_name": "i", "patch": "--- a/x\n+++ b/x\n@@ -1,9 +1 @@\n-a\n"}
    with pytest.raises(TaskError, match="column patch is no bug that can be undone: The patch ends in the middle of a hunk"):
        read(row, "swesmith")


# --- patches --------------------------------------------------------------------------------------


def test_a_line_that_looks_like_a_header_is_none() -> None:
    assert outside("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- ../x\n+++ /etc/passwd\n") is None
    assert outside("rename from x\nrename to ../../y\n") == "../../y"
    assert outside("--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+x\n") == "/etc/passwd"


@pytest.mark.parametrize("patch", format_rows.PATCHES)
def test_twice_undone_is_done(patch: str) -> None:
    assert reverse(reverse(patch)) == patch


lines = st.lists(st.sampled_from(["a\n", "b\n", "- c\n", "+ d\n", "\n", "-- e\n", "é\n"]), max_size=8).map("".join)


@settings(max_examples=25, deadline=None)
@given(old=lines, new=lines, tail=st.sampled_from(["", "end"]))
def test_git_takes_the_reverse_back(tmp_path_factory: pytest.TempPathFactory, old: str, new: str, tail: str) -> None:
    folder: Path = tmp_path_factory.mktemp("repository")
    git = ("git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "-q"], check=True)
    (folder / "x.txt").write_text(old + tail)
    subprocess.run([*git, "add", "-A"], check=True)
    (folder / "x.txt").write_text(new)
    (folder / "y.txt").write_text("new\n")
    subprocess.run([*git, "add", "-N", "y.txt"], check=True)
    patch = subprocess.run([*git, "diff"], check=True, capture_output=True).stdout.decode()
    assert reverse(reverse(patch)) == patch
    subprocess.run([*git, "apply", "--whitespace=nowarn", "-"], input=reverse(patch).encode(), check=True)
    assert (folder / "x.txt").read_text() == old + tail
    assert not (folder / "y.txt").exists()


def test_a_task_can_be_told_by_its_statement_level() -> None:
    assert read(PLAIN).at("report").instruction == "It is 1."
    assert isinstance(read(PLAIN).task, Task)
