"""What an attempt made of its repository, as a patch: everything that the prompt says it takes, whatever else git finds in the tree."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchgrad.agents import prompts_full
from patchgrad.rollouts.repository import commit, difference
from patchgrad.testing import LocalSandboxes, a_task

FILES = {"box.py": "A = 1\n", ".gitignore": "*.log\nbuild/\n", "deep/a.py": "B = 1\n"}
COMMIT = "git add -A && git -c user.name=a -c user.email=a@example.org commit -qm x"
REPAIR = "echo 'A = 2' > box.py"


def submitted(*commands: str, files: Mapping[str, str] = FILES) -> str:
    """The submission of an attempt that ran these commands."""

    async def run() -> str:
        box = await LocalSandboxes(files).open(a_task())
        base = await commit(box)
        for command in commands:
            result = await box.run(command)
            assert result.exit_code == 0, result.output
        return await difference(box, base)

    return asyncio.run(run())


def after(patch: str, folder: Path, files: Mapping[str, str] = FILES) -> dict[str, str]:
    """The files that a submission makes of the first ones, as git applies it."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=folder, check=True)
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


NESTED = f"mkdir -p new/deep && cd new/deep && git init -q && echo 'LOW = 0' > lows.py && {COMMIT}; cd ../.."


@pytest.mark.parametrize(
    "command",
    [
        NESTED,
        NESTED.replace(COMMIT, "git add -A"),
        NESTED.replace(COMMIT, "true"),
        f"{NESTED} && git add -A",
        f"{NESTED} && {COMMIT}",
        "mkdir -p new/deep && echo 'gitdir: ../../deep/.git' > new/deep/.git && echo 'LOW = 0' > new/deep/lows.py",
        "mkdir -p new/deep/.git && echo 'LOW = 0' > new/deep/lows.py",
        f"{NESTED} && cd new && git init -q && cd ..",
    ],
)
def test_files_in_a_repository_inside_of_the_repository_are_submitted(command: str, tmp_path: Path) -> None:
    patch = submitted(command, REPAIR)
    assert "160000" not in patch
    assert after(patch, tmp_path) == {**FILES, "box.py": "A = 2\n", "new/deep/lows.py": "LOW = 0\n"}


def test_a_folder_with_files_of_the_repository_may_become_one_of_its_own(tmp_path: Path) -> None:
    patch = submitted("cd deep && git init -q && echo 'B = 2' > a.py && echo 'C = 1' > c.py; cd ..")
    assert after(patch, tmp_path) == {**FILES, "deep/a.py": "B = 2\n", "deep/c.py": "C = 1\n"}


def test_a_submodule_that_the_commit_itself_has_is_left_as_it_is() -> None:
    async def run() -> str:
        box = await LocalSandboxes(FILES).open(a_task())
        await box.run(f"mkdir sub && cd sub && git init -q && echo 1 > s.py && {COMMIT}; cd .. && {COMMIT}")
        base = (await box.run("git rev-parse HEAD")).output.strip()
        await box.run(REPAIR)
        return await difference(box, base)

    patch = asyncio.run(run())
    assert [line for line in patch.splitlines() if line.startswith("diff")] == ["diff --git a/box.py b/box.py"]


@pytest.mark.parametrize("command", ["mkfifo pipe", "ln -s /nowhere link-to-nothing && rm link-to-nothing", "git config core.bare false"])
def test_what_is_no_file_takes_nothing_else_along(command: str, tmp_path: Path) -> None:
    assert after(submitted(command, REPAIR), tmp_path) == {**FILES, "box.py": "A = 2\n"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_a_file_that_cannot_be_read_takes_nothing_else_along(tmp_path: Path) -> None:
    assert after(submitted("echo 'B = 2' > deep/a.py && chmod 000 deep/a.py", REPAIR), tmp_path)["box.py"] == "A = 2\n"


# --- what git ignores ----------------------------------------------------------------------------


def test_new_files_that_git_ignores_are_submitted_only_where_they_are_added_by_force(tmp_path: Path) -> None:
    made = "mkdir build && echo 1 > build/new.py && echo 1 > run.log && mkdir __pycache__ && touch __pycache__/x.pyc"
    assert submitted(made) == ""
    patch = submitted(made, "git add -f build/new.py", "echo 2 > build/new.py")
    assert after(patch, tmp_path) == {**FILES, "build/new.py": "2\n"}


def test_a_file_of_the_repository_that_its_own_rules_ignore_is_submitted(tmp_path: Path) -> None:
    files = {**FILES, "build/old.py": "C = 1\n"}
    assert after(submitted("echo 'C = 2' > build/old.py", files=files), tmp_path, files)["build/old.py"] == "C = 2\n"


def test_the_agent_is_told_what_submit_takes() -> None:
    told = " ".join(prompts_full.first("It is broken.").split())
    assert "submit takes the whole difference from the repository's commit, new files included" in told
    assert "submit does not take new files that git ignores" in told
    assert "unless you run git add -f on them" in told
    assert "The files of a git repository that you make inside of this one count" in told
