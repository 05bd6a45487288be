"""Demonstrations in bash do what those in our own tools do."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchgrad.agents.gateway.calls import read
from patchgrad.recipes.component import Component
from patchgrad.recipes.recipe import AgentChoice
from patchgrad.recipes.warmup import DemonstratorOptions
from patchgrad.runs.demonstrations.edits import Edit, Edits
from patchgrad.runs.demonstrations.idioms import BashCalls, Blocks, idiom
from patchgrad.runs.demonstrations.known_bugs import Known, known
from patchgrad.tasks.synthetic import synthetic_tasks

MINI = AgentChoice(scaffold=Component("mini-swe-agent"))


@pytest.fixture(scope="module")
def bugs(tmp_path_factory: pytest.TempPathFactory) -> list[Known]:
    return [known(task) for task in synthetic_tasks(16, 3, False, tmp_path_factory.mktemp("archives"))]


def ran(command: str, folder: Path) -> str:
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=True).stdout


def laid(bug: Known, folder: Path) -> Path:
    """A repository with the file that has the bug."""
    path = folder / bug.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(bug.source)
    ran("git init -q . && git add -A", folder)
    return path


def test_each_edit_in_bash_changes_its_line_as_the_edit_says(bugs: list[Known], tmp_path: Path) -> None:
    for number, bug in enumerate(bugs):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = laid(bug, folder)
        edits = Edits(bug, DemonstratorOptions(skill=0.5, misquotes=0.0), random.Random(number))
        speaker = BashCalls(bug, 12)
        first = random.Random(number).randint(1, bug.line)
        ran(speaker.command(f"open {bug.file} {first}"), folder)
        edits.window = speaker.window("", 1)
        assert edits.window == first
        for _ in range(6):
            edit = edits.next()
            path.write_text(bug.source)
            ran(speaker.edit(edit), folder)
            changed = [
                (before, after)
                for before, after in zip(bug.source.splitlines(), path.read_text().splitlines(), strict=True)
                if before != after
            ]
            assert len(changed) == 1
            (before, after) = changed[0]
            assert before == edit.line.partition(":")[2]
            assert len(after) == len(before) + len(edit.new) - len(edit.old)
        repaired = Edits(bug, DemonstratorOptions(skill=1.0, misquotes=0.0), random.Random(0))
        repaired.window = first
        path.write_text(bug.source)
        ran(speaker.edit(repaired.next()), folder)
        lines = bug.source.splitlines()
        assert path.read_text().splitlines() == [*lines[: bug.line - 1], bug.fixed.rstrip("\n"), *lines[bug.line :]]


def test_a_file_is_seen_with_numbers_and_read_on(bugs: list[Known], tmp_path: Path) -> None:
    bug = next(one for one in bugs if len(one.source.splitlines()) > 14)
    laid(bug, tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / f"test_{bug.file.rpartition('/')[2]}").write_text("assert True\n")
    ran("git add -A", tmp_path)
    numbered = [f"{number}:{line}" for number, line in enumerate(bug.source.splitlines(), 1)]
    speaker = BashCalls(bug, 6)
    for name in (bug.file, bug.file.rpartition("/")[2]):
        assert ran(speaker.command(f"open {name} 1"), tmp_path).splitlines() == numbered[:6]
        assert ran(speaker.command("scroll_down"), tmp_path).splitlines() == numbered[6:12]
        assert ran(speaker.command(f"open {name} 9"), tmp_path).splitlines() == numbered[8:14]


texts = st.text(st.characters(codec="ascii", exclude_characters="\n\0\r#"), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@given(old=texts, new=texts)
def test_any_words_mean_themselves(tmp_path_factory: pytest.TempPathFactory, bugs: list[Known], old: str, new: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "words"
    folder.mkdir(exist_ok=True)
    bug = bugs[0]
    path = laid(bug, folder)
    path.write_text(f"#\n{old}{old}\n")
    ran(BashCalls(bug, 6).edit(Edit(old, new, 1, "2:")), folder)  # from line 1 on, which holds no such words
    assert path.read_text() == f"#\n{new}{old}\n"


def test_a_turn_is_a_thought_and_one_call(bugs: list[Known]) -> None:
    speaker = idiom(MINI, bugs[0])
    found = read(speaker.turn("Done.", speaker.command("submit")))
    assert (found.content, found.call and found.call.arguments) == ("Done.", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})


def test_other_agents_are_shown_blocks(bugs: list[Known]) -> None:
    assert isinstance(idiom(AgentChoice(scaffold=Component("mine:agent")), bugs[0]), Blocks)
