"""Folders of Harbor tasks: what others made comes back byte for byte, what we make can be judged and comes back as the same task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.tasks import format_rows
from tests.tasks.test_formats_files import call, forged

from patchgrad.errors import TaskError
from patchgrad.tasks.archive import open_archive
from patchgrad.tasks.formats import harbor
from patchgrad.tasks.formats.exchange import export_set, import_set
from patchgrad.tasks.sets import Member, members, save
from patchgrad.values import Checks, Repository

TOML = 'version = "1.0"\n\n[metadata]\nauthor_name = "N"\n\n[verifier]\ntimeout_sec = 120.0\n\n[environment]\nbuild_timeout_sec = 600.0\n'


def made_by_others(folder: Path, toml: str = TOML) -> Path:
    files: dict[str, bytes] = {
        "task.toml": toml.encode(),
        "instruction.md": "Mend ü.\r\n".encode(),
        "environment/Dockerfile": b"FROM ubuntu:24.04\n",
        "environment/logo.png": b"\x89PNG\xff",
        "tests/test.sh": b"echo 1 > /logs/verifier/reward.txt\n",
        "tests/data.bin": b"\xfe\xff",
        "solution/solve.sh": b"true\n",
        "solution/solution.patch": format_rows.PATCHES[0].encode(),
        "notes/README.md": b"kept too\n",
    }
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    (folder / "solution" / "solve.sh").chmod(0o755)
    return folder


def contents(folder: Path) -> dict[str, tuple[bytes, bool]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), os.access(path, os.X_OK)) for path in files}


def test_a_folder_of_others_comes_back_byte_for_byte(tmp_path: Path) -> None:
    folder = made_by_others(tmp_path / "tasks" / "mend-it").parent
    made_by_others(folder / "other", TOML.replace("[environment]", '[environment]\ndocker_image = "x/y:z"'))
    assert call("import", str(folder), "--out", str(tmp_path / "set")) == 0
    first, second = members(tmp_path / "set")
    assert (first.task.id, first.task.instruction, first.repair) == ("mend-it", "Mend ü.\r\n", format_rows.PATCHES[0])
    assert first.task.repository == Repository("image", "mend-it", "")
    assert second.task.repository == Repository("image", "x/y:z", "")
    assert (first.task.checks.fail_to_pass, first.task.checks.parser) == (("reward",), "harbor")
    assert [file.path for file in first.task.checks.files] == [".harbor-base64/tests/data.bin", ".harbor/tests/test.sh"]
    assert call("export", str(tmp_path / "set"), str(tmp_path / "out"), "--format", "harbor") == 0
    assert contents(tmp_path / "out") == contents(folder)


def test_a_member_of_a_folder_goes_through_rows(tmp_path: Path) -> None:
    made_by_others(tmp_path / "mend-it")
    (member,) = import_set(str(tmp_path / "mend-it"), tmp_path / "set")
    export_set(tmp_path / "set", tmp_path / "rows.jsonl", "swebench")
    assert import_set(str(tmp_path / "rows.jsonl"), tmp_path / "again") == [member]


def test_a_changed_task_of_others_says_what_was_changed(tmp_path: Path) -> None:
    made_by_others(tmp_path / "mend-it")
    (member,) = import_set(str(tmp_path / "mend-it"), tmp_path / "set")
    changed = replace(member, task=replace(member.task, instruction="Mend it.", packages=("six==1.17.0",)), output="E")
    task = harbor.to_folder(changed)
    assert json.loads(task.files["patchgrad.json"]) == {"levels": {"report": "Mend ü.\r\n"}, "output": "E", "packages": ["six==1.17.0"]}
    assert harbor.to_member(task) == changed


# --- tasks of ours --------------------------------------------------------------------------------


def test_a_forged_task_comes_back_the_same(tmp_path: Path) -> None:
    made = forged(tmp_path / "set")
    save(tmp_path / "set", [made])
    assert call("export", str(tmp_path / "set"), str(tmp_path / "out"), "--format", "harbor") == 0
    (folder,) = (tmp_path / "out").iterdir()
    assert call("import", str(tmp_path / "out"), "--out", str(tmp_path / "set2")) == 0
    (back,) = members(tmp_path / "set2")
    assert open_archive(back.task.repository) == open_archive(made.task.repository)
    (tmp_path / "set").rename(tmp_path / "gone")
    (tmp_path / "set2").rename(tmp_path / "set")
    assert members(tmp_path / "set") == [made]
    config = tomllib.loads((folder / "task.toml").read_text())
    assert (config["schema_version"], config["task"]["name"]) == ("1.1", "patchgrad/forge-box-swap-1")
    assert config["metadata"]["id"] == made.task.id
    shown = (folder / "instruction.md").read_text() + "".join(
        path.read_text(errors="replace") for path in (folder / "environment").iterdir() if path.name != "repository.tar"
    )
    assert "test_a" not in shown
    assert "a = 2" not in shown


@settings(max_examples=40, deadline=None)
@given(member=format_rows.members)
def test_any_task_of_ours_comes_back_the_same(member: Member) -> None:
    judged = replace(member, task=replace(member.task, checks=replace(member.task.checks, command=("pytest", "-x"), parser="report")))
    folder = harbor.to_folder(judged)
    assert tomllib.loads(folder.files["task.toml"].decode())["metadata"]["id"] == judged.task.id
    assert harbor.to_member(folder) == judged
    added = replace(folder, files={**folder.files, "NOTES.md": b"more", "environment/x": b"\xff"})
    again = harbor.to_member(added)
    assert again != judged
    assert harbor.to_folder(again).files == added.files


def dockerfile(member: Member) -> str:
    return harbor.to_folder(member).files["environment/Dockerfile"].decode()


def test_the_container_has_what_the_sandbox_has(tmp_path: Path) -> None:
    member = forged(tmp_path)
    text = dockerfile(member)
    assert text.startswith("FROM python:3.11-slim\n")
    assert "six==1.17.0" in text
    assert "pytest==" in text
    assert "ADD repository.tar /testbed/\n" in text
    assert text.index('"true"') < text.index("git init")
    bug = replace(member, task=replace(member.task, repository=Repository("image", "x/y:z", f"sha256:{'a' * 64}", format_rows.PATCHES[0])))
    assert dockerfile(bug).startswith(f"FROM x/y:z@sha256:{'a' * 64}\nWORKDIR /testbed\nCOPY repository.patch ")
    assert harbor.to_folder(bug).files["environment/repository.patch"].decode() == format_rows.PATCHES[0]
    clone = replace(member, task=replace(member.task, repository=Repository("git", "https://x/y.git", "c0ffee")))
    assert "git clone" in dockerfile(clone)


def judged(tmp_path: Path, member: Member, solved: bool) -> str:
    """What a container would do, here: unpack, solve or not, then run the verifier; the reward."""
    task, here, repository = harbor.to_folder(member), tmp_path / "task", tmp_path / "testbed"
    for path, content in task.files.items():
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        (here / path).write_bytes(content)
    repository.mkdir()
    for name in ("pytest.py", "patchgrad_verify.py"):  # what a submission could leave to be taken for the judge
        (repository / name).write_text("raise SystemExit(0)\n")
    for path, content in open_archive(member.task.repository).items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_bytes(content)
    git = ("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
        subprocess.run([*git, *command], check=True)
    (repository / "tests/test_box.py").write_text("def test_kept(): assert False\n")  # put back by the verifier
    if solved:
        subprocess.run(["bash", str(here / "solution/solve.sh"), str(repository)], check=True)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    reward = tmp_path / "logs" / "reward.txt"
    verifier = ["bash", str(here / "tests/test.sh"), str(reward), str(repository)]
    subprocess.run(verifier, check=True, env=environment, capture_output=True, timeout=120)
    return reward.read_text().strip()


@pytest.mark.parametrize("solved", [True, False])
def test_the_verifier_gives_the_reward(tmp_path: Path, solved: bool) -> None:
    repair = "--- a/box.py\n+++ b/box.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
    member = replace(forged(tmp_path / "set"), repair=repair)
    assert judged(tmp_path, member, solved) == ("1" if solved else "0")


def test_the_verifier_takes_hidden_tests_as_a_patch_and_knows_how_tests_end(tmp_path: Path) -> None:
    member = forged(tmp_path / "set")
    test = (
        "import pytest",
        "def test_a(): pass",
        "@pytest.mark.xfail",
        "def test_x(): assert False",
        "@pytest.mark.skip",
        "def test_s(): pass",
    )
    patch = f"--- /dev/null\n+++ b/test_more.py\n@@ -0,0 +1,{len(test)} @@\n" + "".join(f"+{line}\n" for line in test)
    ids = {name: f"test_more.py::test_{name}" for name in "axs"}
    holds = Checks((ids["a"], ids["x"]), (ids["s"], ids["x"]), patch=patch)
    for number, (checks, reward) in enumerate(((holds, "1"), (replace(holds, fail_to_pass=(ids["s"],)), "0"))):
        given = replace(member, repair="", task=replace(member.task, checks=checks))
        assert judged(tmp_path / str(number), given, solved=False) == reward


def to_member_with_folder(folder: Path, name: str) -> Member:
    (task,) = harbor.load(folder)
    member = harbor.to_member(task)
    return replace(member, task=replace(member.task, tags={**member.task.tags, "harbor.folder": name}))


# --- what cannot be -------------------------------------------------------------------------------


def test_what_a_folder_cannot_hold(tmp_path: Path) -> None:
    member = forged(tmp_path / "set")
    read_from_a_log = replace(member.task.checks, parser="parse_log_jq")
    save(tmp_path / "set", [replace(member, task=replace(member.task, checks=read_from_a_log))])
    with pytest.raises(TaskError, match="is judged by the log reader 'parse_log_jq', which Harbor has not: export it as rows"):
        export_set(tmp_path / "set", tmp_path / "out", "harbor")
    assert [path.name for path in tmp_path.iterdir()] == ["set"], "nothing half made is left"
    outside = replace(member, task=replace(member.task, tags={"file.../x": "y"}))
    with pytest.raises(TaskError, match=r"has a file '\.\./x' outside of its folder: it is refused"):
        harbor.to_folder(outside)
    made_by_others(tmp_path / "mend-it")
    elsewhere = to_member_with_folder(tmp_path / "mend-it", "../x")
    with pytest.raises(TaskError, match=r"has a file '\.\./x' outside of its folder"):
        harbor.to_folder(elsewhere)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(TaskError, match="is there already and not empty"):
        export_set(tmp_path / "set", tmp_path / "full", "harbor")


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("task.toml", b"x =", "mend-it: task.toml is not valid TOML"),
        ("task.toml", b"environment = 3", "mend-it: environment in task.toml is no table."),
        ("instruction.md", b"\xff", "mend-it: instruction.md is missing, or is no text in UTF-8."),
        ("tests/test.sh", None, "mend-it: there is no tests/test.sh, which says whether the task is solved."),
        ("patchgrad.json", b"{", "mend-it: patchgrad.json is broken"),
        ("patchgrad.json", b"[]", "mend-it: patchgrad.json holds no fields of a task: export the task again."),
    ],
)
def test_a_broken_folder_is_told(tmp_path: Path, path: str, content: bytes | None, says: str) -> None:
    folder = made_by_others(tmp_path / "mend-it")
    if content is None:
        (folder / path).unlink()
    else:
        (folder / path).write_bytes(content)
    with pytest.raises(TaskError) as refused:
        import_set(str(folder), tmp_path / "set")
    assert str(refused.value).startswith(says)
    assert not (tmp_path / "set").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    folder = made_by_others(tmp_path / "mend-it")
    (folder / "tests" / "secret").symlink_to("/etc/passwd")
    with pytest.raises(TaskError, match="tests/secret is a link: put the file itself there"):
        import_set(str(folder), tmp_path / "set")


def test_a_folder_of_others_is_given_its_digest(tmp_path: Path) -> None:
    folder = made_by_others(tmp_path / "mend-it")
    digest = f"sha256:{'a' * 64}"
    (member,) = import_set(str(folder), tmp_path / "set", digests={"mend-it": digest})
    assert member.task.repository.digest == digest
    assert harbor.to_member(harbor.to_folder(member)) == member
