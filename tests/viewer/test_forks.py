"""Forks and failures in the page: which attempt began in which, and in which turns something failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest
from tests.viewer.serving import WAYS, browser, opened, served, violations
from tests.viewer.synthetic import RECIPE, episode

from patchgrad.store import Run
from patchgrad.values import Rollout
from patchgrad.viewer.site import forks, listed


def fork(name: str, origin: str, left: int, solved: bool = True) -> Rollout:
    """An attempt that went on after so many turns of another one."""
    plain = episode(name, solved)
    return replace(plain, trajectory=replace(plain.trajectory, origin=origin, replayed=left))


def failing(name: str, failure: Literal["timeout", "unknown tool"], at: int, replayed: int = 0) -> Rollout:
    """An attempt one of whose turns failed."""
    plain = episode(name, False)
    turns = list(plain.trajectory.turns)
    turns[at] = replace(turns[at], observation=replace(turns[at].observation, failure=failure))
    for number in range(at + 1, len(turns)):
        turns[number] = replace(turns[number], parent=turns[number - 1].address)
    segment = replace(plain.trajectory.segments[0], turns=tuple(turns))
    trajectory = replace(plain.trajectory, segments=(segment,), replayed=replayed, origin="elsewhere" if replayed else "")
    return replace(plain, trajectory=trajectory)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Attempts that began in one another, one that began elsewhere, and two in which something failed."""
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("stage1", 0, [episode("stage1/0/0/0", False), episode("stage1/0/0/1", True, malformed=True)])
        found = [
            fork("stage1/0/0/0+4.0", "stage1/0/0/0", 4),
            fork("stage1/0/0/0+2.0", "stage1/0/0/0", 2, solved=False),
            fork("stage1/0/0/0+4.0+5.1", "stage1/0/0/0", 5),
            fork("stage1/1/0/0", "stage1/0/0/0", 1),
            fork("stage1/1/0/1", "another run's", 3),
        ]
        run.rollouts.write("stage1", 1, found)
        run.rollouts.write("stage1", 2, [failing("stage1/2/0/0", "timeout", 2), failing("stage1/2/0/1", "unknown tool", 1, replayed=2)])
    return run


def test_forks_stand_below_the_attempt_that_they_left(run: Run) -> None:
    found = [
        (node["id"].removeprefix("stage1/"), node["parent"].removeprefix("stage1/"), node["left"])
        for node in forks.family(run, "stage1/1/0/0")
    ]
    assert found == [
        ("0/0/0", "", 0),
        ("1/0/0", "0/0/0", 1),
        ("0/0/0+2.0", "0/0/0", 2),
        ("0/0/0+4.0", "0/0/0", 4),
        ("0/0/0+4.0+5.1", "0/0/0+4.0", 5),
    ]
    assert forks.family(run, "stage1/0/0/1") == []
    assert [node.get("missing", False) for node in forks.family(run, "stage1/1/0/1")] == [True, False]


def failures(run: Run) -> dict[str, list[str]]:
    """The kinds of each attempt in which something failed."""
    told = listed.listed(run.rollouts.files())["columns"]
    kinds = [[told["failures"]["values"][place] for place in one] for one in told["failures"]["index"]]
    return {name: one for name, one in zip(told["attempt"], kinds, strict=True) if one}


def test_an_attempt_has_the_kinds_of_its_own_failed_turns(run: Run) -> None:
    assert failures(run) == {"stage1/0/0/1": ["no command"], "stage1/2/0/0": ["timeout"]}


def test_attempts_are_chosen_by_how_a_turn_failed(run: Run, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    for way in WAYS:
        with opened([run.folder], way, tmp_path / way) as address, browser() as page:
            page.goto(f"{address}#/list/0")
            expect(page.locator(".body .row")).to_have_count(9)
            page.select_option("select[aria-label=failure]", "timeout")
            expect(page.locator(".body .row")).to_have_count(1)
            assert "failure=timeout" in page.url
            page.reload()
            expect(page.locator(".body .row")).to_have_count(1)
            assert page.inner_text(".body .row a") == "stage1/2/0/0"


@pytest.mark.parametrize("way", WAYS)
def test_the_tree_of_forks_is_a_list_whose_entries_open_where_they_left(way: str, run: Run, tmp_path: Path) -> None:
    with opened([run.folder], way, tmp_path / "page") as address, browser() as page:
        page.goto(f"{address}#/attempt/0/{quote('stage1/0/0/0', safe='')}")
        page.wait_for_selector(".forks li")
        assert page.locator(".forks > ul > li > ul > li").count() == 3
        assert page.inner_text(".forks [aria-current]") == "stage1/0/0/0"
        assert "stage1/0/0/0+4.0 left after turn 4, solved, reward 1, submitted, 6 turns" in page.inner_text(".forks")
        page.click(".forks a:has-text('+4.0') >> nth=0")
        page.wait_for_selector("#turn-5 .token")
        assert "turn=5" in page.url
        assert page.inner_text(".forks [aria-current]") == "stage1/0/0/0+4.0"


def test_an_attempt_that_began_elsewhere_says_so_and_one_that_is_no_fork_has_no_tree(run: Run) -> None:
    with served([run.folder]) as place, browser() as page:
        opened_at = f"http://127.0.0.1:{place.port}/#/attempt/0/"
        page.goto(f"{opened_at}{quote('stage1/1/0/1', safe='')}")
        page.wait_for_selector(".forks li")
        assert "another run's is not in this run" in page.inner_text(".forks")
        assert violations(page) == []
        page.goto(f"{opened_at}{quote('stage1/0/0/1', safe='')}")
        page.wait_for_selector(".token")
        assert page.locator(".forks").count() == 0
