"""Every measured figure of the README and the guides stands in docs/figures.json, and the pages say what stands there.

A page marks a figure by a comment behind it: `95.1 %<!-- figure: interval-coverage -->`. A table in a block of text has the names of its
rows above it: `<!-- figures: laptop-0-base, laptop-0-rft -->`.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = [PROJECT / "README.md", PROJECT / "docs" / "tutorial.md", *sorted((PROJECT / "docs" / "guide").rglob("*.md"))]
FIGURES: dict[str, dict[str, Any]] = json.loads((PROJECT / "docs" / "figures.json").read_text())
FIELDS = {"what", "value", "unit", "error", "interval", "n", "seeds", "command", "commit", "machine", "source"}
MARKED = re.compile(r"(-?[\d,]*\.?\d+)( ?%| x)?(\**)<!-- figure: ([\w-]+) -->")
MEASURED = re.compile(r"(?<![\d.])\d[\d,.]* ?%(?! interval)|(?<![\d.])\d+(?:\.\d+)? x(?= |\*|\)|$|<|,|\.)", re.MULTILINE)
COUNTED = re.compile(r"\d+ (?:held-out |training )?tasks x \d+|an interval of 95 % holds the truth in 95 %")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
EVERY = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def rounded(value: float, written: str) -> str:
    """A value with as many decimals as the page writes."""
    return f"{value:.{len(written.partition('.')[2])}f}"


@EVERY
def test_a_marked_figure_is_the_one_in_the_file(page: Path) -> None:
    for written, unit, _, name in MARKED.findall(page.read_text()):
        figure = FIGURES[name]
        assert written.replace(",", "") == rounded(figure["value"], written), f"{page.name}: {name}"
        assert not unit or unit.strip() == figure["unit"], f"{page.name}: {name}"


@EVERY
def test_a_share_or_a_ratio_is_marked(page: Path) -> None:
    text = COUNTED.sub("", CODE.sub("", page.read_text()))
    assert [found.group() for found in MEASURED.finditer(MARKED.sub("", text))] == []


@EVERY
def test_a_table_of_figures_has_them_row_by_row(page: Path) -> None:
    for names, block in re.findall(r"<!-- figures: (.*?) -->\n```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for name, line in zip(names.split(", "), block.splitlines()[1:], strict=True):
            figure = FIGURES[name]
            low, high = figure["interval"]
            assert f"{figure['value']:.1f} ± {figure['error']:.1f}" in line
            assert f"{low:.1f} to {high:.1f}" in line


def test_every_figure_tells_how_it_was_measured_and_is_used() -> None:
    used = set(re.findall(r"<!-- figures?: (.*?) -->", "\n".join(page.read_text() for page in PAGES)))
    assert {name for names in used for name in names.split(", ")} == FIGURES.keys()
    for name, figure in FIGURES.items():
        assert figure.keys() == FIELDS, name
        assert all((PROJECT / place).exists() for place in re.findall(r"(?:docs|tests|src|sets)/[\w./-]+", figure["source"])), name


def test_the_figures_of_a_kept_run_are_those_of_its_file() -> None:
    kept = json.loads((PROJECT / "docs" / "studies" / "climb" / "make-train-0.json").read_text())["reports"]
    for name, row in zip(("base", "rft", "stage-1", "stage-2"), kept, strict=True):
        figure, solved = FIGURES[f"laptop-0-{name}"], row["pass_at_1"]
        assert (figure["value"], figure["error"]) == (round(100 * solved["mean"], 1), round(100 * solved["error"], 1))


def test_the_figures_of_eight_seeds_are_those_of_their_files() -> None:
    folder = PROJECT / "docs" / "studies" / "climb"
    runs = [json.loads((folder / f"{seed}.json").read_text())["reports"] for seed in range(101, 109)]
    solved = [[100 * reports[i]["pass_at_1"]["mean"] for reports in runs] for i in range(5)]
    for name, values in zip(("base", "rft", "stage-1", "stage-2", "alone"), solved, strict=True):
        assert FIGURES[f"laptop-{name}"]["value"] == pytest.approx(fmean(values), abs=0.051)
    ends, differences = solved[3], [one - other for one, other in zip(solved[3], solved[4], strict=True)]
    assert (FIGURES["laptop-stage-2-least"]["value"], FIGURES["laptop-stage-2-most"]["value"]) == pytest.approx(
        (min(ends), max(ends)), abs=0.051
    )
    assert FIGURES["rl-over-rft"]["value"] == pytest.approx(fmean(differences), abs=0.051)
    half = 2.3646 * stdev(ends) * sqrt(1 + 1 / len(ends))  # Student's, with seven degrees of freedom
    for name, end in (("low", fmean(ends) - half), ("high", fmean(ends) + half)):
        assert FIGURES[f"laptop-another-{name}"]["value"] == round(end)


@pytest.mark.parametrize("name", ["curve", "repeats"])
def test_a_picture_is_drawn_from_its_files(name: str) -> None:
    sys.path.insert(0, str(PROJECT / "benchmarks" / "studies"))
    drawing = importlib.import_module(name)
    sys.path.pop(0)
    assert drawing.PICTURE.read_text() == drawing.picture(), f"run python benchmarks/studies/{name}.py"
