"""Two reports task by task: the figures are those of `evaluate --compare`, and each task leads to its attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.viewer.serving import WAYS, browser, opened, served, violations
from tests.viewer.synthetic import RECIPE, episode, policy

from patchgrad.errors import StoreError
from patchgrad.evaluation import versus
from patchgrad.store import Run
from patchgrad.values import Report
from patchgrad.viewer.site import paired

BASE = {"a": (True, True), "b": (False, False), "c": (True, False), "d": (None, None)}
TRAINED = {"a": (False, False), "b": (True, True), "c": (True, True), "d": (True, True)}


def report(name: str, outcomes: Mapping[str, tuple[bool | None, ...]]) -> Report:
    """A report of these outcomes."""
    return replace(policy(name, 0.4, 0.6, 0.9, 6.0, 1.0), tasks=len(outcomes), attempts=2, outcomes=outcomes, solved={})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two reports on four tasks, of which the attempts at the second are kept, and one on another."""
    with Run.create(tmp_path / "a run", RECIPE) as run:
        run.results.write_reports([report("base", BASE), report("+ RFT", TRAINED), report("elsewhere", {"z": (True, True)})])
        attempts = [episode(f"evaluate/+ RFT/{place}/0", True) for place in range(2)]
        attempts[1] = replace(attempts[1], task=replace(attempts[1].task, id="b"), trajectory=replace(attempts[1].trajectory, task="b"))
        run.rollouts.write("evaluate-2", 0, attempts)
    return run


def test_a_comparison_is_that_of_the_command_line(run: Run) -> None:
    base, trained, _ = run.results.reports()
    found, told = versus(base, trained), paired.compared([run], "0:0", "0:1")
    assert told["sentence"] == found.sentence
    assert told["comparison"]["p_value"] == found.comparison.p_value
    assert told["comparison"]["difference"]["low"] == found.comparison.difference.low
    assert paired.every([run])["0:0 0:1"] == told


def test_a_task_has_the_attempts_that_did_not_break_and_the_table_that_they_are_in(run: Run) -> None:
    base, trained, _ = paired.outcomes(run)
    assert base["tasks"] == {"a": (2, 2), "b": (0, 2), "c": (1, 2), "d": (0, 0)}
    assert (base["phase"], trained["phase"]) == ("", "evaluate-2")


def test_reports_on_other_tasks_are_compared_with_none(run: Run) -> None:
    assert "other tasks" in paired.compared([run], "0:0", "0:2")["error"]
    assert "other tasks" in paired.every([run])["0:0 0:2"]["error"]


@pytest.mark.parametrize("which", ["0:9", "7:0", "", "0", "0:-1", "a:b"])
def test_a_report_that_is_not_there_is_told(which: str, run: Run) -> None:
    with pytest.raises(StoreError, match="no report"):
        paired.compared([run], "0:0", which)


@pytest.mark.parametrize("way", WAYS)
def test_tasks_are_sorted_by_difference_and_lead_to_their_attempts(way: str, run: Run, tmp_path: Path) -> None:
    with opened([run.folder], way, tmp_path / "page") as address, browser() as page:
        page.goto(f"{address}#/tasks?one=0:0&two=0:1")
        page.wait_for_selector(".tasks tbody tr")
        rows = [row.split("\t") for row in page.locator(".tasks tbody tr").all_inner_texts()]
        assert [(row[0], row[1], row[2], row[3].strip()) for row in rows] == [
            ("b", "0 of 2", "2 of 2", "+100"),
            ("c", "1 of 2", "2 of 2", "+50"),
            ("a", "2 of 2", "0 of 2", "-100"),
            ("d", "broke", "2 of 2", ""),
        ]
        assert paired.compared([run], "0:0", "0:1")["sentence"] in page.inner_text("main")
        page.click(".tasks tr:has-text('0 of 2') >> nth=0 >> a")
        page.wait_for_selector(".body .row")
        assert page.locator(".body .row").count() == 1
        assert "task=b" in page.url
        page.click("button:has-text('task b')")
        page.wait_for_selector(".body .row >> nth=1")


def test_order_and_reports_stand_in_the_address(run: Run) -> None:
    with served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/tasks")
        page.wait_for_selector("text=other tasks")  # first and last report
        page.select_option("#two", "0:1")
        page.wait_for_selector(".tasks tbody tr")
        page.check("#differing")
        page.click(".tasks button:has-text('task')")
        page.click(".tasks button:has-text('task')")
        assert page.url.endswith("#/tasks?one=0%3A0&two=0%3A1&sort=task&differing=1")
        page.reload()
        page.wait_for_selector(".tasks tbody tr")
        assert page.locator(".tasks tbody th").all_inner_texts() == ["a", "b", "c"]
        assert violations(page) == []


def test_a_run_without_two_reports_says_so(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.results.write_reports([report("base", BASE)])
    with served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/tasks")
        page.wait_for_selector("text=there are none yet")
