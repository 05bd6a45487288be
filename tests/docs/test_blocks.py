"""Every block of code in the README and the guides runs: Python, command lines, TOML, and the lines that a diff adds.

The blocks of a page run one after the other in a folder of their own, where a small run, a package and a task set lie. Recipes that train
are small ones under the names of the page. A comment above a block says why it does not run: `<!-- not run: a model of the hub -->`; its
command lines are parsed all the same. A block of text behind Python is what it prints, and behind `<!-- output -->` what the last command
prints.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_pipeline import TINY, needs_bubblewrap
from tests.tasks.shapes import TREE, write

import patchgrad
from patchgrad import recipes
from patchgrad.cli import VERBS, main, parser
from patchgrad.cli.options import split
from patchgrad.cli.tasks import forge
from patchgrad.config import dumps, loads, override
from patchgrad.recipes import Recipe, laptop
from patchgrad.recipes.evaluation_choice import EvaluationChoice
from patchgrad.recipes.recipe import PolicyChoice, Shape
from patchgrad.runs.reading import read_recipe

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", PROJECT / "docs" / "tutorial.md", *sorted((PROJECT / "docs" / "guide").rglob("*.md"))]
REASONS = {"a model of the hub", "the package index", "a server", "a clone", "another program"}
LANGUAGES = {"bash", "python", "toml", "text", "diff"}
BLOCK = re.compile(r"(?:^<!-- (not run: )?([^>]*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EVERY = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code with what the comment above it says."""

    language: str
    text: str
    remark: str
    runs: bool

    @property
    def commands(self) -> list[str]:
        """Its command lines, of a diff those that are added."""
        lines = [line.removeprefix("+") for line in self.text.splitlines() if self.language != "diff" or line.startswith("+")]
        return lines if self.language == "bash" else [line for line in lines if line.startswith("patchgrad ")]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order."""
    return [Block(language, text, remark, not reason) for reason, remark, language, text in BLOCK.findall(page.read_text())]


def tiny() -> Recipe:
    """Every phase, in seconds."""
    shape = Shape(hidden=64, layers=2, heads=1, kv_heads=1, intermediate=128, vocabulary=512, copies=False)
    stage = TINY.stages[0]
    second = replace(stage, start=replace(stage.start, refresh_before=True))
    evaluation = EvaluationChoice(attempts=2, limits=stage.limits)
    return replace(TINY, policy=PolicyChoice(shape=shape), stages=(stage, second), evaluation=evaluation)


def understood(line: str) -> None:
    """A command line is one that the program takes; the target of a `make` is there."""
    if line.startswith("make "):
        assert re.search(rf"^{line.split()[1]}:", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    elif line.startswith("patchgrad "):
        words = shlex.split(line.partition(" > ")[0])[1:]
        assert words[0] in VERBS
        known, changes = split(words)
        parser().parse_args(known)
        if known[0] == "train" and "--resume" not in known and not known[1].endswith(".toml"):
            override(recipes.RECIPES[known[1]](), changes)


def added(value: dict[str, Any], key: str = "") -> Iterator[tuple[str, str]]:
    """The keys of a part of a recipe with their values."""
    for name, item in value.items():
        if isinstance(item, dict):
            yield from added(item, f"{key}{name}.")
        else:
            yield f"{key}{name}", str(item)


@EVERY
def test_every_block_has_a_language_and_a_known_reason_not_to_run(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, block.text
        assert block.runs or block.remark in REASONS, block.remark


@EVERY
def test_every_command_line_is_understood(page: Path) -> None:
    for block in blocks(page):
        for line in block.commands if block.language in ("bash", "diff") else ():
            understood(line)


@EVERY
def test_every_part_of_a_recipe_is_one(page: Path) -> None:
    for block in blocks(page):
        if block.language == "toml" and block.runs:
            table = tomllib.loads(block.text)
            assert read_recipe(block.text) if "preset" in table else override(laptop(), dict(added(table)))


@EVERY
def test_python_compiles(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text)
        elif block.language == "diff" and not block.commands:
            ast.parse("\n".join(line[1:] for line in block.text.splitlines() if line.startswith("+")))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a finished run, and a package to plant bugs in; recipes that train are small."""
    folder = tmp_path_factory.mktemp("pages")
    write(folder / "my-package", TREE)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for name in ("laptop", "smoke"):
            patch.setitem(recipes.RECIPES, name, partial(replace, tiny(), name=name))
        patch.setattr(forge, "cache", lambda: folder / "cache")
        patch.chdir(folder)
        assert main(["train", "laptop", "--run", str(folder / "made" / "run")]) == 0  # archives go by this path
        assert main(["tasks", "forge", "./my-package", "--count", "3", "--seed", "4", "--confirm", "1", "--out", "made/set"]) == 0
        yield folder


GIVEN: dict[str, dict[str, dict[str, str]]] = {
    "evaluation": {
        "runs/laptop": {},
        "runs/a-1": {"seed": "1"},
        "runs/a-2": {"seed": "2"},
        "runs/b-1": {"seed": "1", "rft.lr": "5e-4"},
        "runs/b-2": {"seed": "2", "rft.lr": "5e-4"},
        "sets/mine": {},
    },
    "ci": {"runs/laptop": {}},
    "attempts": {"runs/laptop": {}},
    "harbor": {"sets/mine": {}},
    "inspect": {"runs/laptop": {}},
    "predictions": {"runs/laptop": {}, "sets/mine": {}},
    "run-folder": {"runs/laptop": {}, "runs/again": {}},
    "viewer": {"runs/laptop": {}},
}
"""What a page supposes to be there, and what its recipe has other than the run that was made."""


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "extend"], ids=lambda page: page.stem)  # test_extend.py runs that
def test_every_block_runs(page: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = workplace / page.stem
    folder.mkdir()
    monkeypatch.chdir(folder)
    shutil.copytree(workplace / "my-package", folder / "my-package")
    for name, changes in GIVEN.get(page.stem, {}).items():
        shutil.copytree(workplace / "made" / ("set" if name.startswith("sets/") else "run"), folder / name)
        if changes:
            path = folder / name / "recipe.toml"
            path.write_text(dumps(override(loads(Recipe, path.read_text()), changes)))
    printed, ran = "", False
    for block in blocks(page):
        if block.language == "text":
            assert not (ran or block.remark == "output") or without_figures(printed) == without_figures(block.text)
        elif block.language == "python" and block.runs and not (" pg." in block.text and not hasattr(patchgrad, "train")):
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block.text, page.name, "exec"), {"__name__": page.stem})
            printed = output.getvalue()
        elif block.language == "bash" and block.runs:
            for line in block.commands:
                printed = obeyed(line)
        ran = block.language == "python" and block.runs


def without_figures(text: str) -> str:
    """The text without figures, nor ways to fail: a clock decides some, and a processor others, because each rounds in its own way."""
    return re.sub(r"(?<=turns failed:).*", "", re.sub(r" +[\d.,]+", " 0", text))


def obeyed(line: str) -> str:
    """What a command line of a page prints; a `make` of the page is not run here, since it makes an environment of its own."""
    if line.startswith("make "):
        return ""
    assert line.startswith("patchgrad "), line
    words, _, target = line.partition(" > ")
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(shlex.split(words)[1:])
    assert code == 0, f"{line}: {errors.getvalue()}{output.getvalue()}"
    if target:
        Path(target).write_text(output.getvalue())
    return output.getvalue()
