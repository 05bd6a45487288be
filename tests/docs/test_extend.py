"""docs/guide/extend.md is run: its examples in their order, in one folder, and its files."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from patchgrad.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "extend.md").read_text()
BLOCKS = re.findall(r"^```(python|toml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CHECKED = [code for language, code in BLOCKS if language == "python" and "check_judge(" in code]
EXAMPLES = [code for language, code in BLOCKS if language == "python" and "pg.train(" in code]
PARTS = ("reward=small", "judges=[", "agent=", "tools=[", "estimator=", "objective=", "curriculum=")

pytestmark = pytest.mark.filterwarnings("default")  # of what is written as users write it


def example(number: int) -> None:
    """Runs an example of the page in the current folder."""
    exec(compile(EXAMPLES[number], f"extend.md, {PARTS[number]}", "exec"), {"__name__": "__main__"})


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all of them run: the current folder, with the run that the page begins with."""
    base = tmp_path_factory.getbasetemp() / "extend"
    base.mkdir(exist_ok=True)
    monkeypatch.chdir(base)
    if not Path("runs/first").exists():
        example(0)
    return base


def test_there_is_an_example_of_each() -> None:
    assert len(EXAMPLES) == len(PARTS)
    assert all(part in example for part, example in zip(PARTS, EXAMPLES, strict=True))


def test_the_first_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    example(0)
    assert "stage 2 RL" in capsys.readouterr().out


@pytest.mark.parametrize("number", range(1, len(EXAMPLES)), ids=[part.rstrip("=[") for part in PARTS[1:]])
def test_an_example_runs(number: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example(number)
    assert capsys.readouterr().out.strip(), "every example prints something"


def test_the_parts_of_the_page_can_be_checked_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = CHECKED
    exec(compile(code, "extend.md, checks", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()


def test_the_same_from_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = next(code for language, code in BLOCKS if language == "python" and "import patchgrad" not in code)
    recipe = next(code for language, code in BLOCKS if language == "toml" and "preset" in code)
    (folder / "mine.py").write_text(module)
    (folder / "mine.toml").write_text(recipe)
    try:
        assert main(["train", "mine.toml", "--run", "runs/mine", "--json"]) == 0
        (folder / "mine.py").write_text(module.replace("100", "50"))
        assert main(["train", "--run", "runs/mine", "--resume", "--json"]) == 2, "other code is not gone on with by accident"
        assert main(["train", "--run", "runs/mine", "--resume", "--json", "--accept-changed-code"]) == 0
        assert main(["train", "--run", "runs/mine", "--resume", "--json"]) == 0
    finally:
        sys.modules.pop("mine", None)
