"""Every view can be read on a screen of 360 pixels: nothing sticks out of it but what scrolls by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.viewer import pictured
from tests.viewer.serving import browser, served, violations

from patchgrad.links.listening import Place

pytest.importorskip("starlette")
pytest.importorskip("tokenizers")

ONE = "stage1%2F3%2F0%2F0"
VIEWS = {
    "#/": ".report figure",
    "#/report/1": ".report figure",
    "#/list/0": ".body .row",
    f"#/attempt/0/{ONE}": ".token",
    f"#/pair?one=0%3A{ONE}&two=0%3A{ONE}%2B3.1": ".pair section",
    "#/curves?metric=pass_at_1": ".plot .dot",
    "#/tasks?one=0%3A0&two=0%3A2": ".tasks td",
}
OUTSIDE = """() => [...document.querySelectorAll("header *, aside *, main *")].filter((one) => {
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height || (box.right <= innerWidth + 1 && box.left >= -1)) return false;
    const scrolls = (above) => above && (getComputedStyle(above).overflowX !== "visible" || scrolls(above.parentElement));
    return !scrolls(one.parentElement);
}).map((one) => one.outerHTML.slice(0, 120))"""
"""What is beyond the screen, other than in a part that scrolls."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("narrow")
    names = ("laptop-0", "a-run-whose-name-is-longer-than-a-narrow-screen-is-wide")
    runs = [pictured.make(folder / name, seed=seed) for seed, name in enumerate(names)]
    with served([run.folder for run in runs]) as where:
        yield where


def looked_at(page: Any, place: Place, address: str) -> None:
    page.goto(f"http://127.0.0.1:{place.port}/{address}")
    page.wait_for_selector(VIEWS[address])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_sticks_out_of_a_narrow_screen(scheme: str, place: Place) -> None:
    with browser(viewport={"width": 360, "height": 800}, color_scheme=scheme) as page:
        for address in VIEWS:
            looked_at(page, place, address)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, address
            assert page.evaluate(OUTSIDE) == [], address
            assert violations(page) == [], address


def test_what_matters_most_is_in_sight_without_a_scroll_to_the_side(place: Place) -> None:
    with browser(viewport={"width": 360, "height": 800}) as page:
        for address, cells in (
            ("#/list/0", ".body .row:first-child .cell.solved"),
            ("#/tasks?one=0%3A0&two=0%3A2", "tbody tr:first-child td"),
        ):
            looked_at(page, place, address)
            ends = page.locator(cells).evaluate_all("(found) => found.map((one) => one.getBoundingClientRect().right)")
            assert ends
            assert max(ends) <= 361, address
