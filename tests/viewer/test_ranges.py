"""The list is narrowed by ranges of figures, which stand in the address, and sorted by how turns failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.viewer.serving import WAYS, browser, opened, until, violations
from tests.viewer.synthetic import make

pytest.importorskip("starlette")

Row = dict[str, Any]
RANGES: dict[str, Callable[[Row], bool]] = {
    "turns>=6": lambda row: row["turns"] >= 6,
    "turns < 6": lambda row: row["turns"] < 6,
    "turns<=5, reward>-0.5": lambda row: row["turns"] <= 5,
    "reward=1": lambda row: row["reward"] == 1,
    "reward<.5": lambda row: row["reward"] < 0.5,
    "tokens>60 iteration>=11": lambda row: row["action_tokens"] > 60 and row["iteration"] >= 11,
    "version=41 seconds<3": lambda row: row["policy_version"] == 41 and row["seconds"] < 3,
    "VERSION>41": lambda row: row["policy_version"] > 41,
}
UNREAD = {
    "turns>=": "turns>=",
    "turns>=6 words": "words",
    "colour>2 turns>=6": "colour>2",
    "constructor>=1": "constructor>=1",
    "turns>=6x": "turns>=6x",
    "turns==6": "turns==6",
}
"""What of a text cannot be read; the others of its ranges hold."""


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page that is open."""
    folder = tmp_path_factory.mktemp("looked")
    with opened([make(folder / "run").folder], "by a double click", folder / "page") as address, browser() as page:
        page.goto(f"{address}#/list/0")
        yield page


@pytest.mark.parametrize("way", WAYS[::2])
def test_figures_are_within_the_ranges_that_the_address_tells(way: str, tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    rows = run.rollouts.rows()
    with opened([run.folder], way, tmp_path / "page") as address, browser() as page:
        for text, fits in RANGES.items():
            page.goto(f"{address}#/list/0?where={quote(text)}")
            until(page, sum(map(fits, rows)))
            names = page.locator(".body .cell.attempt").all_inner_texts()
            assert set(names) == {row["attempt"] for row in rows if fits(row)}, text
            assert page.inner_text("#unread") == ""
        page.fill("#where", "turns>=6 reward=1")
        assert page.evaluate("location.hash") == "#/list/0?where=turns%3E%3D6+reward%3D1"
        page.reload()
        page.wait_for_selector(".body .row")
        assert page.input_value("#where") == "turns>=6 reward=1"


def test_what_is_no_range_is_told_and_holds_nothing_back(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    with opened([run.folder], "served", tmp_path) as address, browser() as page:
        page.goto(f"{address}#/list/0")
        until(page, 9)
        for text, rest in UNREAD.items():
            page.fill("#where", text)
            assert page.inner_text("#unread").startswith(f"“{rest}” is no range: write one as turns>=8"), text
            assert page.get_attribute("#where", "aria-invalid") == "true"
            until(page, 6 if "turns>=6 " in f"{text} " else 9)
        assert violations(page) == []
        page.fill("#where", "")
        assert page.get_attribute("#where", "aria-invalid") == "false"


def test_a_column_tells_how_turns_failed_and_sorts_by_it(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    with opened([run.folder], "served", tmp_path) as address, browser() as page:
        page.goto(f"{address}#/list/0")
        until(page, 9)
        page.click("[data-name=failures] button")
        assert "sort=failures" in page.evaluate("location.hash")
        told = page.locator(".body .cell.failures").all_inner_texts()
        assert told == ["no command"] * 3 + [""] * 6, "those without a failure come last"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1:00 min"), (119.6, "2:00 min"), (3599.7, "60:00 min")]
)
def test_a_time_is_rounded_as_a_whole(seconds: float, told: str, looked: Any) -> None:
    assert looked.evaluate(f"seconds({seconds})") == told
