"""Curves of runs: the figures are those of the files, and a reader gets them by pointer, by keyboard, and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.viewer.serving import WAYS, browser, opened, served, violations
from tests.viewer.synthetic import RECIPE, make, policy

from patchgrad.evaluation import over_seeds as spread
from patchgrad.store import Run
from patchgrad.viewer.site.curves import REPORTS, curves, over_seeds

ROWS: tuple[dict[str, Any], ...] = (
    {"phase": "rft", "iteration": 0, "reward": 0.25, "sampled": 100, "seconds": {"wall": 60, "besides": 30}, "failures": {"timeout": 2}},
    {"phase": "stage1", "iteration": 0, "reward": None, "sampled": 150, "seconds": {"wall": 120}, "failures": {}},
    {"phase": "stage1", "iteration": 1, "reward": 0.5, "sampled": 50, "seconds": {"wall": 30}, "pass_at_1": 0.4, "pass_at_1_se": 0.1},
)


def written(folder: Path, rows: tuple[dict[str, Any], ...] = ROWS, recipe: str = RECIPE, shares: tuple[float, float] = (0.2, 0.4)) -> Run:
    """A run of these iterations, and two reports that it made."""
    with Run.create(folder, recipe) as run:
        for row in rows:
            run.results.write_metrics(row)
        reports = [
            policy(name, share, 0.5, 0.8, 6.0, 1.0) for name, share in zip(("base", "+ stage 1 RL", "by hand"), (*shares, 0.9), strict=True)
        ]
        run.results.write_reports(reports)
    return run


def test_axes_are_sums_of_what_the_iterations_took(tmp_path: Path) -> None:
    found = curves(written(tmp_path / "run"))
    assert found["points"] == ["the beginning", "rft 0", "stage1 0", "stage1 1"]
    assert found["axes"] == {"iteration": [0, 1, 2, 3], "tokens": [0, 100, 250, 300], "minutes": [0, 1.5, 3.5, 4]}


def test_a_report_stands_behind_the_phase_that_made_its_policy(tmp_path: Path) -> None:
    found = curves(written(tmp_path / "run"))["metrics"][REPORTS]
    assert (found["names"], found["at"], found["values"]) == (["base", "+ stage 1 RL"], [0, 3], [0.2, 0.4])
    assert all(low < mean < high for low, mean, high in zip(found["low"], found["values"], found["high"], strict=True))


def test_what_was_not_measured_is_a_gap_and_a_kind_of_failure_that_is_not_named_did_not_happen(tmp_path: Path) -> None:
    found = curves(written(tmp_path / "run"))["metrics"]
    assert found["reward"]["values"] == [0.25, None, 0.5]
    assert found["failures/timeout"]["values"] == [2, 0, None]
    assert found["pass_at_1"]["low"] == [None, None, pytest.approx(0.3)]
    assert "pass_at_1_se" not in found


def test_a_run_that_tells_no_tokens_has_no_such_axis(tmp_path: Path) -> None:
    assert curves(make(tmp_path / "run"))["axes"]["tokens"] is None


NUMBERS = st.one_of(st.none(), st.integers(-9, 9), st.floats(), st.booleans(), st.text(max_size=3), st.lists(st.integers(), max_size=2))


@given(st.lists(st.dictionaries(st.sampled_from(["reward", "x", "seconds", "failures"]), NUMBERS, max_size=4), max_size=5))
def test_any_line_of_metrics_gives_finite_numbers_or_gaps(tmp_path_factory: pytest.TempPathFactory, rows: list[Mapping[str, Any]]) -> None:
    with Run.create(tmp_path_factory.mktemp("any") / "run", RECIPE) as run:
        for number, row in enumerate(rows):
            run.results.write_metrics({"phase": "rft", "iteration": number, **row})
    found = curves(run)
    for one in found["metrics"].values():
        assert len(one["values"]) == len(one["at"]) == len(rows)
        assert all(value is None or math.isfinite(value) for value in one["values"])


# --- over seeds ------------------------------------------------------------------------------------

SECOND: tuple[dict[str, Any], ...] = (
    {"phase": "rft", "iteration": 0, "reward": 0.75, "sampled": 300, "failures": {}},
    {"phase": "stage1", "iteration": 1, "reward": 0.7, "sampled": 150},
)


def seeded(folder: Path) -> list[Path]:
    """Three runs: two seeds of a recipe, of which the second lacks an iteration, and another recipe."""
    second = RECIPE.replace("seed = 0", "seed = 1")
    return [
        written(folder / "first").folder,
        make(folder / "other", recipe=RECIPE.replace("turns = 8", "turns = 9")).folder,
        written(folder / "second", SECOND, recipe=second, shares=(0.3, 0.7)).folder,
    ]


def test_seeds_of_a_recipe_are_one_curve_with_their_error(tmp_path: Path) -> None:
    (found,) = over_seeds([Run.open(folder) for folder in seeded(tmp_path)])
    assert (found["name"], found["runs"]) == ("laptop, mean of 2 seeds", [0, 2])
    assert found["points"] == ["the beginning", "rft 0", "stage1 0", "stage1 1"]
    assert found["axes"]["tokens"] == [0, 200, 350, 450]
    reward, reports = found["metrics"]["reward"], found["metrics"][REPORTS]
    assert reward["values"] == [0.5, None, pytest.approx(0.6)]
    assert reward["low"] == [pytest.approx(0.25), None, pytest.approx(0.5)]
    assert reward["band"] == "± one standard error over seeds"
    assert found["metrics"]["failures/timeout"]["values"] == [1, 0, None]
    assert reports["names"] == ["base", "+ stage 1 RL"]
    assert reports["values"] == [pytest.approx(0.25), pytest.approx(0.55)]
    expected = spread([0.2, 0.3])
    assert (reports["low"][0], reports["high"][0]) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_a_figure_that_one_seed_alone_has_is_a_mean_without_an_error(tmp_path: Path) -> None:
    (found,) = over_seeds([Run.open(folder) for folder in seeded(tmp_path)])
    solved = found["metrics"]["pass_at_1"]
    assert (solved["values"], solved["band"]) == ([None, None, 0.4], "")


def test_a_seed_that_is_there_twice_has_no_mean(tmp_path: Path) -> None:
    assert over_seeds([written(tmp_path / name) for name in ("one", "other")]) == []


# --- in a browser ----------------------------------------------------------------------------------


def ready(page: Any, address: str) -> None:
    """Opens the curves."""
    page.goto(address)
    page.wait_for_selector(".plot svg .line", state="attached")


@pytest.mark.parametrize("way", WAYS)
def test_two_runs_are_drawn_over_another_and_told_as_a_table(way: str, tmp_path: Path) -> None:
    one, other = written(tmp_path / "one"), written(tmp_path / "other", ROWS[:2])
    with opened([one.folder, other.folder], way, tmp_path / "page") as address, browser() as page:
        ready(page, f"{address}#/curves?metric=reward&axis=tokens")
        assert page.locator(".plot .line.k0").count() == 2  # a gap stays a gap
        assert page.locator(".plot .line.k1").count() == 1
        assert page.locator(".legend label").all_inner_texts() == ["one", "other"]
        page.click("summary")
        page.wait_for_selector(".wide tbody tr")
        rows = [row.split("\t") for row in page.locator(".wide tbody tr").all_inner_texts()]
        assert rows == [["100", "0.25", "", "", "0.25", "", ""], ["300", "0.5", "", "", "", "", ""]]


def test_the_keyboard_and_the_pointer_tell_the_figures_at_a_point(tmp_path: Path) -> None:
    run = written(tmp_path / "a run")
    with served([run.folder]) as place, browser() as page:
        ready(page, f"http://127.0.0.1:{place.port}/#/curves?metric=pass_at_1")
        page.focus(".plot")
        page.keyboard.press("ArrowRight")
        assert page.get_attribute(".plot", "aria-valuetext") == "3 iterations; a run, stage1 1: 40.0 % (30.0 % to 50.0 %)"
        page.select_option("#metric", REPORTS)
        page.focus(".plot")
        page.keyboard.press("End")
        assert "a run, + stage 1 RL: 40.0 %" in page.inner_text(".said")
        page.mouse.move(0, 0)
        page.locator(".plot .dot").first.hover()
        assert "a run, base: 20.0 %" in page.inner_text(".said")


def test_the_figure_the_axis_and_the_runs_stand_in_the_address(tmp_path: Path) -> None:
    folders = [written(tmp_path / name).folder for name in ("one", "other")]
    with served(folders) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/")
        page.click("#views a >> text=curves")
        page.wait_for_selector(".plot svg .line", state="attached")
        page.select_option("#metric", "reward")
        page.select_option("#axis", "minutes")
        page.uncheck(".legend label:has-text('other') input")
        assert page.url.endswith("#/curves?runs=0&metric=reward&axis=minutes")
        page.reload()
        page.wait_for_selector(".plot svg .line", state="attached")
        assert page.locator(".plot .k1").count() == 0
        assert page.input_value("#metric") == "reward"
        assert page.input_value("#axis") == "minutes"


@pytest.mark.parametrize("way", WAYS[::2])
def test_seeds_are_drawn_as_their_mean_until_a_run_is_chosen(way: str, tmp_path: Path) -> None:
    with opened(seeded(tmp_path), way, tmp_path / "page") as address, browser() as page:
        page.goto(f"{address}#/curves?metric=reward&axis=tokens")
        page.wait_for_selector(".plot svg .whisker.k3", state="attached")  # a point without neighbours has a bar in place of a band
        assert page.inner_text("#curve") == "Reward (band: ± one standard error over seeds)"
        assert page.locator(".legend label").all_inner_texts() == ["first", "other", "second", "laptop, mean of 2 seeds"]
        assert [one.is_checked() for one in page.locator(".legend input").all()] == [False, True, False, True]
        assert "runs=" not in page.evaluate("location.hash")
        page.check(".legend label:has-text('second') input")
        page.wait_for_selector(".plot .line.k2", state="attached")
        assert "runs=1%2C2%2C3" in page.evaluate("location.hash")
        page.select_option("#metric", REPORTS)
        assert page.inner_text("#curve").endswith("(band: 95 % interval over tasks, of means 95 % interval over seeds)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_are_for_everyone_on_any_screen(scheme: str, tmp_path: Path) -> None:
    folders = [make(tmp_path / name, seed=seed).folder for seed, name in enumerate(("one", "other"))]
    with served(folders) as place, browser(color_scheme=scheme, viewport={"width": 380, "height": 800}) as page:
        ready(page, f"http://127.0.0.1:{place.port}/#/curves?metric=pass_at_1")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        page.click("summary")
        page.wait_for_selector(".wide tbody tr")
        page.focus(".plot")
        page.keyboard.press("End")
        assert violations(page) == []


def test_a_run_that_has_measured_nothing_says_so_and_new_iterations_appear(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run, served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/curves")
        page.wait_for_selector("text=Nothing was measured yet.")
        page.wait_for_timeout(1500)
        for row in ROWS:
            run.results.write_metrics(row)
        page.wait_for_selector(".plot svg .line", state="attached")
