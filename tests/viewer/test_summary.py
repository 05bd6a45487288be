"""The report is the first view of the page: the same figures as in report.html, made of text alone, for one run and for several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.viewer.serving import WAYS, browser, opened, served, violations
from tests.viewer.synthetic import RECIPE, episode, make, record
from tests.viewer.test_site import HOSTILE

from patchgrad.store import Run
from patchgrad.viewer import page as report
from patchgrad.viewer.site.summary import elements, of_run, of_runs

np = pytest.importorskip("numpy")
pytest.importorskip("starlette")


class Words(HTMLParser):
    """The text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def texts(told: Any) -> Iterator[str]:
    """The texts of elements, in order."""
    for one in told:
        if isinstance(one, str):
            yield one
        else:
            yield from texts(one[2:])


def seeded(folder: Path, seed: int) -> Run:
    return make(folder, recipe=RECIPE.replace("seed = 0", f"seed = {seed}"), seed=seed)


def test_the_elements_say_what_the_report_says(tmp_path: Path) -> None:
    run, words = make(tmp_path / "run"), Words()
    words.feed("".join(report.summary(run)))
    told = of_run(run)
    assert "".join(texts(told["elements"])) == "".join(words.found)
    assert [one["attempt"] for one in told["read"]] == ["stage2/0", "stage2/1", "stage2/2"]
    assert "iterations = 8" in "".join(texts(told["setting"]))
    assert told["refused"] == []


def test_elements_keep_their_attributes_and_what_is_in_them() -> None:
    drawn = '<svg viewBox="0 0 1 1"><line x1="0"/><circle r="1"><title>t</title></circle></svg>'
    told = elements(f'<p class="a">1 &lt; 2<br><b title="x">three</b></p>{drawn}')
    assert told == [
        ["p", {"class": "a"}, "1 < 2", ["br", {}], ["b", {"title": "x"}, "three"]],
        ["svg", {"viewBox": "0 0 1 1"}, ["line", {"x1": "0"}], ["circle", {"r": "1"}, ["title", {}, "t"]]],
    ]


@pytest.mark.parametrize("text", ["<script>1</script>", '<p onclick="x">', '<img src="x">', '<a href="javascript:x">y</a>'])
def test_what_no_report_has_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is in no report"):
        elements(text)


def test_a_damaged_part_is_told_and_the_others_are_shown(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    (run.folder / "metrics.jsonl").write_text("torn\n" + (run.folder / "metrics.jsonl").read_text())
    told = of_run(run)
    assert len(told["refused"]) == 1
    assert "metrics.jsonl" in told["refused"][0]
    assert "Results" in "".join(texts(told["elements"]))


def test_of_runs_that_cannot_be_compared_it_is_told_why(tmp_path: Path) -> None:
    told = of_runs([make(tmp_path / name) for name in ("one", "other")])
    assert told["elements"] == []
    assert "repeats laptop with the seed 0" in told["refused"][0]


# --- in a browser ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_the_first_view_is_the_report_and_the_attempts_are_one_click_away(way: str, tmp_path: Path) -> None:
    run = make(tmp_path / "a run")
    with opened([run.folder], way, tmp_path / "page") as address, browser() as page:
        page.goto(address)
        page.wait_for_selector(".report h1")
        assert page.inner_text(".report h1") == "61.3 % of 200 held-out tasks solved"
        assert page.locator(".report figure svg .line").count() == "".join(report.summary(run)).count('class="line ')
        assert page.locator(".report .track i").first.evaluate("(one) => one.style.width") == "12.6%"
        assert page.locator(".report table").first.evaluate("(one) => getComputedStyle(one).borderCollapse") == "collapse"
        page.click(".report >> text=stage2/1")
        page.wait_for_selector(".token")
        page.click("#nav >> text=report")
        page.click("#nav >> text=attempts")
        page.wait_for_selector(".body .row")
        assert page.url.endswith("#/list/0")


@pytest.mark.parametrize("way", WAYS)
def test_several_runs_are_compared_first_and_each_has_its_own_report(way: str, tmp_path: Path) -> None:
    runs = [seeded(tmp_path / f"seed-{seed}", seed).folder for seed in (1, 2)]
    with opened(runs, way, tmp_path / "page") as address, browser() as page:
        page.goto(address)
        page.wait_for_selector(".report h1")
        assert page.inner_text(".report h1") == "laptop, 2 runs"
        assert page.locator(".report .band").count() > 0
        page.click(".ways li:has-text('seed-2') >> text=report")
        page.wait_for_selector(".report h1:has-text('61.3 %')")
        assert page.url.endswith("#/report/1")
        page.click(".ways li:has-text('seed-2') >> text=attempts")
        page.wait_for_selector(".body .row")
        assert page.url.endswith("#/list/1")


def test_nothing_that_a_run_says_runs_in_the_report(tmp_path: Path) -> None:
    plain = episode("rft/0", True)
    bad = " ".join(HOSTILE)
    with Run.create(tmp_path / "run", f'name = """{HOSTILE[0]}"""\n') as run:
        task = replace(plain.task, id=bad, tags={"package": bad, "family": HOSTILE[2]})
        run.rollouts.write("rft", 0, [replace(plain, task=task, trajectory=replace(plain.trajectory, task=bad))])
        run.results.write_metrics(record("rft", 0, 0.5, np.random.default_rng(0)))
    with served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/")
        page.wait_for_selector(".report h1")
        assert page.evaluate("() => window.ran") is None
        said = page.locator(".report div").first.inner_text()
        assert HOSTILE[0] in said
        assert not any(sign in said for sign in "\x1b\x07\u202e\u2066")


def test_a_new_report_is_shown_while_the_page_is_open(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run, served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/")
        page.wait_for_selector(".report h1:has-text('A run that is still on its way')")
        page.click(".report summary")
        page.wait_for_timeout(1500)
        run.results.write_metrics(record("rft", 0, 0.5, np.random.default_rng(0)))
        page.wait_for_selector(".report figure svg .dot")
        assert page.locator(".report details").evaluate("(one) => one.open"), "what was unfolded stays so"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_is_for_everyone_on_any_screen(scheme: str, tmp_path: Path) -> None:
    runs = [seeded(tmp_path / f"seed-{seed}", seed).folder for seed in (1, 2)]
    with served(runs) as place, browser(color_scheme=scheme, viewport={"width": 360, "height": 800}) as page:
        for address in ("", "#/report/0"):
            page.goto(f"http://127.0.0.1:{place.port}/{address}")
            page.wait_for_selector(".report figure")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert violations(page) == []
