"""The README is run: its Python, its command lines, and the places that it names."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from patchgrad.cli import VERBS, main, parser
from patchgrad.cli.options import split

PROJECT = Path(__file__).parents[2]
PAGES = sorted([PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").rglob("*.md")])
README = (PROJECT / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", README, re.MULTILINE | re.DOTALL)
VERB = rf"patchgrad (?:{'|'.join(VERBS)})\b"
LINES = sorted(set(re.findall(rf"^{VERB}.*?(?=  +#|$)|(?<=`){VERB}[^`]*(?=`)", README, re.MULTILINE)))


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_its_python_prints_what_it_says(code: str, printed: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert output.getvalue() == printed


@pytest.mark.parametrize("line", LINES)
def test_its_command_lines_are_understood(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line.partition(" > ")[0].replace("mine.toml", "laptop"))[1:]
    known, changes = split(words)
    parser().parse_args(known)
    if known[0] in ("train", "evaluate") and changes:
        fields = [word for key, value in changes.items() for word in (f"--{key}", value)]
        assert main(["train", "laptop", *fields, "--print"]) == 0, capsys.readouterr().err


def test_there_are_examples_and_lines_and_the_first_code_comes_early() -> None:
    assert len(EXAMPLES) >= 3
    assert len(LINES) >= 6
    assert "make train" in "\n".join(README.splitlines()[:25])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_place_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    linked = [name for name in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in name]
    missing = [name for name in linked if not (page.parent / name).exists()]
    spoken = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./-]+)`", text)
    missing += [name for name in spoken if not (PROJECT / name).exists()]
    assert not missing, f"{page.name} names what is not there: {missing}"


def test_the_tree_is_the_house() -> None:
    tree = README.split("src/patchgrad/\n")[1].split("```")[0]
    drawn = {name for line in tree.splitlines() for name in re.findall(r"[├└─ ]+((?:[a-z_]+(?:\.py|/) *)+)", line.split("   ")[0])}
    drawn = {part.rstrip("/") for names in drawn for part in names.split()}
    root = PROJECT / "src" / "patchgrad"
    there = {path.name for path in root.iterdir() if not path.name.startswith(("_", ".")) and path.suffix in ("", ".py")}
    assert drawn == there - {"grading_plugin"}
