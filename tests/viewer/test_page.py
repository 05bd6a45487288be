"""The page: one file that asks nothing of anybody, complete for a finished run and honest for one that is still going."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.viewer.synthetic import RECIPE, episode, make, policy, record

from patchgrad.store import Run
from patchgrad.viewer import report
from patchgrad.viewer.charts import Phase, Series, bar, lines, nice
from patchgrad.viewer.episodes import choose
from patchgrad.viewer.page import tasks_page

VOID = {"meta", "link", "br", "img", "hr", "input"}
DRAWN = {"line", "circle", "polyline", "polygon"}


class Nesting(HTMLParser):
    """Fails on a tag that closes what is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in VOID and not (tag in DRAWN and "title" not in dict(attrs)):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in DRAWN:
            return
        assert self.open, f"{tag} closes nothing"
        assert self.open.pop() == tag


def well_formed(text: str) -> set[str]:
    parser = Nesting()
    parser.feed(text)
    assert not parser.open
    return parser.seen


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> str:
    run = make(tmp_path_factory.mktemp("page") / "laptop")
    return report(run.folder).read_text()


def test_the_page_is_one_file_without_requests(finished: str) -> None:
    assert len(finished.encode()) < 2_000_000
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://""", finished)
    assert "<script" not in finished


def test_the_page_is_well_formed_and_holds_every_part(finished: str) -> None:
    assert {"table", "svg", "details", "style"} <= well_formed(finished)
    for part in (
        "61.3 % of 200 held-out tasks solved",
        "Results",
        "Learning",
        "How attempts ended",
        "Turns that failed, of all turns:",
        "base: no command",
        "Where the time went",
        "Three attempts",
    ):
        assert part in finished
    for row in ("base", "+ RFT", "+ stage 1", "+ stage 2"):
        assert f"<td>{row}</td>" in finished
    assert "malformed: no command" in finished
    assert "cores 97 % busy" in finished
    assert re.search(r"Most of the cores. work was \w+: \d+", finished)
    assert "prefers-color-scheme: dark" in finished


FRAME = """<iframe id="f" src="{}.html" style="width:340px;height:900px;border:0"></iframe>
<script>f.onload = () => {{
  const page = f.contentDocument.documentElement
  document.body.innerHTML = `<pre>${{page.scrollWidth - page.clientWidth}}</pre>`
}}</script>"""
WAITING = {"phase": "stage1", "iteration": 0, "seconds": {"sampling": 1.0, "idle": 19.0, "wall": 10.0, "learning": 4.0}, "cores_busy": 0.05}


def test_of_work_that_is_done_elsewhere_the_clock_tells(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", "[machine]\ngpus = 1\n") as run:
        run.results.write_metrics(WAITING)
        text = report(run.folder).read_text()
    assert "On the clock attempts took 60.0 % and learning 40.0 %" in text
    assert "idle for" not in text


def test_cores_that_mostly_had_nothing_to_do_are_told(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.results.write_metrics(WAITING)
        text = report(run.folder).read_text()
    assert "The cores were idle for 95.0 %" in text


def test_a_run_that_is_still_going_has_a_page_too(tmp_path: Path) -> None:
    text = report(make(tmp_path / "laptop", finished=False).folder).read_text()
    well_formed(text)
    assert "still on its way" in text
    assert "stage 1" in text
    assert "<table>" not in text


def test_a_run_that_has_just_begun_has_a_page_too(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.results.write_metrics({"phase": "rft", "iteration": 0, "unknown": 1})
        text = report(run.folder).read_text()
    well_formed(text)
    assert "Learning" not in text
    assert "name = &quot;laptop&quot;" in text


@pytest.mark.parametrize(
    ("number", "heading"), [(0, ""), (1, "One attempt to read"), (2, "Two attempts to read"), (3, "Three attempts to read")]
)
def test_the_heading_counts_the_attempts_below_it(tmp_path: Path, number: int, heading: str) -> None:
    kinds = [episode("x/0", True), episode("x/1", False), episode("x/2", True, malformed=True)]
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("rft", 0, kinds[:number])
        text = report(run.folder).read_text()
    assert text.count('<details class="episode">') == number
    assert re.findall(r"<h2>(\w+ attempts? to read)</h2>", text) == [heading][: bool(heading)]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_a_telephone_shows_every_page_without_scrolling_sideways(tmp_path: Path) -> None:
    """Also with names that have no place to break."""
    long, rng = 12 * "workshop:mark_parts:op_swap.", np.random.default_rng(0)
    tags = {"package": long, "kind": "repair", "family": "cmp_boundary", "split": "train"}
    attempt = episode("x/0", True)
    task = replace(attempt.task, id=long, tags=tags)
    with Run.create(tmp_path / long[:200], RECIPE) as run:
        run.tasks.add([task])
        run.rollouts.write("rft", 0, [attempt, episode("x/1", False), episode("x/2", True, malformed=True)])
        run.results.write_reports([policy(name, 0.126, 0.33, 0.55, 5.4, 1.6) for name in ("base", long)])
        for iteration in range(3):
            run.results.write_metrics(record("rft", iteration, iteration / 3, rng))
        pages = {"run": report(run.folder).read_text(), "tasks": tasks_page(long, [task], {"from": long})}
    for name, text in pages.items():
        (tmp_path / f"{name}.html").write_text(text.replace("<details", "<details open"))
        (tmp_path / "frame.html").write_text(FRAME.format(name))
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom")
        told = subprocess.run(["chromium", *flags, str(tmp_path / "frame.html")], capture_output=True, text=True, check=True).stdout
        assert "<pre>0</pre>" in told, f"{name} can be scrolled sideways: {told}"


def test_what_an_agent_wrote_stays_text(tmp_path: Path) -> None:
    evil = episode("x/0", True)
    turn = evil.trajectory.turns[0]
    object.__setattr__(turn.action, "text", "</pre><script>alert(1)</script>\n```\n<b>\n```")
    with Run.create(tmp_path / "run", "title = '</pre><script>'") as run:
        run.rollouts.write("rft", 0, [evil])
        text = report(run.folder).read_text()
    well_formed(text)
    assert "<script" not in text


def test_the_page_writes_nothing_else(tmp_path: Path) -> None:
    run = make(tmp_path / "laptop")
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    report(run.folder)
    report(run.folder)
    after = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file() and path.name != "report.html"}
    assert before == after


def test_the_three_attempts_are_of_three_kinds_and_the_latest(tmp_path: Path) -> None:
    chosen = dict(choose(make(tmp_path / "laptop")))
    assert [row["attempt"] for row in chosen.values()] == ["stage2/0", "stage2/1", "stage2/2"]
    assert chosen["A success"]["solved"]
    assert not chosen["A failure"]["solved"]
    assert chosen["A malformed turn"]["malformed"] == 1


@given(st.floats(1e-9, 1e9))
def test_an_axis_ends_just_above_its_value(top: float) -> None:
    end, step = nice(top)
    assert top <= end * (1 + 1e-6)
    assert end <= 2.1 * top
    assert 3 <= round(end / step) <= 5 or end / step == pytest.approx(round(end / step))


@pytest.mark.parametrize("values", [[None, None], [0.0], [0.0, 0.0], [-1.0, 2.0], [None, 0.5, None, 0.25, 0.5], [1e-9], [1e12, 3.0]])
def test_any_measured_values_can_be_drawn(values: list[float | None]) -> None:
    drawn = lines([Series("x", values, [0.1] * len(values))], [Phase("rft", 0)], percent=False)
    well_formed(drawn)
    assert "nan" not in drawn
    assert drawn.count("<circle") == sum(value is not None for value in values)


def test_a_gap_in_the_figures_stays_a_gap() -> None:
    assert lines([Series("x", [1.0, None, 2.0, 3.0])], [Phase("a", 0)], percent=False).count("<polyline") == 2


def test_each_mark_of_an_axis_has_a_figure_of_its_own() -> None:
    drawn = lines([Series("clipped", [0.0, 0.009])], [Phase("stage1", 0)], percent=True)
    marks = re.findall(r'text-anchor="end">([^<]+)<', drawn)
    assert marks == ["0 %", "0.25 %", "0.5 %", "0.75 %", "1 %"]


def test_a_bar_of_nothing_is_empty() -> None:
    assert bar({}, ["a"]) == '<div class="bar"></div>'
    assert bar({"a": 1, "b": 3}, ["a", "b"]).count("<i ") == 2
