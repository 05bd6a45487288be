"""What is very large is shown as soon as a part of it is there, and all of it can be reached: a hundred thousand attempts, long answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.viewer.large import TABLE, long, many
from tests.viewer.serving import browser, served, until
from tests.viewer.synthetic import RECIPE

from patchgrad.store import Run

pytest.importorskip("starlette")

ELEMENTS = 2000
"""More than a screen of the list takes; all rows would take more than a million."""

LIST, ATTEMPT = 100_000, "#/attempt/0/stage1%2F0%2F0%2F0"


def sizes(page: Any) -> list[tuple[str, int]]:
    """Addresses and lengths of what the page is sent from here on."""
    found = list[tuple[str, int]]()
    page.on("response", lambda answer: found.append((answer.url, int(answer.headers.get("content-length", 0)))))
    return found


@pytest.mark.slow
def test_of_a_hundred_thousand_attempts_the_first_are_shown_before_others_are_there_and_all_are_reached(tmp_path: Path) -> None:
    run = many(tmp_path / "run", LIST)
    with served([run.folder]) as place, browser() as page:
        sent, held = sizes(page), list[Any]()
        page.route("**/data/0/list/1", lambda route: held.append(route))
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
        page.wait_for_selector(".body .row")
        assert f"{TABLE:,} of {TABLE:,} attempts" in page.inner_text(".filters")  # the rest was not even sent
        assert sum(size for _, size in sent) < 1_000_000
        held.pop().continue_()
        page.wait_for_selector(f".filters:has-text('{LIST:,} of {LIST:,} attempts')")
        assert page.evaluate("() => document.querySelectorAll('*').length") < ELEMENTS
        page.focus(".scroll")
        page.keyboard.press("End")
        page.wait_for_selector(".body .row:has-text('stage1/99/999/0')")
        assert page.evaluate("() => document.querySelectorAll('*').length") < ELEMENTS
        page.fill("#words", "stage1/57/123/0")
        until(page, 1)
        page.click(".body .row a")
        page.wait_for_selector("#turn-4 .token")


def test_an_attempt_that_fills_its_context_has_elements_for_what_is_near_and_can_be_scrolled_to_its_end(tmp_path: Path) -> None:
    turns, each = 64, 2048
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("stage1", 0, [long("stage1/0/0/0", turns * each, turns)])
    with served([run.folder]) as place, browser() as page:
        sent = sizes(page)
        page.goto(f"http://127.0.0.1:{place.port}/{ATTEMPT}")
        page.wait_for_selector("#turn-1 .token")
        assert page.locator(".turn").count() == turns
        assert page.locator(".token").count() < turns * each / 4
        page.focus("body")
        page.keyboard.press("e")
        page.wait_for_selector(f"#turn-{turns} .token")
        assert page.locator(f"#turn-{turns} .token").count() == each
        assert page.evaluate(f"() => document.getElementById('turn-{turns}').getBoundingClientRect().top < innerHeight")
        assert page.locator(".token").count() < turns * each / 2
        asked = next(size for url, size in sent if "/attempt?" in url)
        assert asked < 8_000_000  # of the answer of ten megabytes the beginning


@pytest.mark.slow
def test_a_long_answer_with_a_line_of_four_megabytes_is_reached_to_its_last_letter(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        made = long("stage1/0/0/0", 512, 4)
        run.rollouts.write("stage1", 0, [made])
    answer = made.trajectory.turns[1].observation.content
    with served([run.folder]) as place, browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/{ATTEMPT}")
        page.wait_for_selector("#turn-1 .token")
        page.click("text=fetch all of it")
        page.wait_for_selector(f"#turn-2 .more:has-text('{len(answer) - 20_000:,} letters are left')")
        assert page.evaluate("() => document.querySelector('#turn-2 .answer').innerText.length") < 100_000
        presses = page.evaluate(
            """() => { let presses = 0;
            for (let more; (more = document.querySelector('#turn-2 .answer .more')) && !more.hidden; presses++) more.click();
            return presses; }"""
        )
        assert presses < 60
        shown = page.evaluate("() => document.querySelector('#turn-2 .answer pre').textContent")
        assert shown == answer
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [380, 1280])
def test_the_list_of_many_is_worked_by_the_keyboard_on_a_narrow_screen_too(width: int, tmp_path: Path) -> None:
    run = many(tmp_path / "run", 3 * TABLE)
    with served([run.folder]) as place, browser(viewport={"width": width, "height": 700}) as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
        page.wait_for_selector(f".filters:has-text('{3 * TABLE:,} of')")
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        page.focus(".scroll")
        for key in ("End", "PageUp", "k", "Home", "PageDown", "j"):
            page.keyboard.press(key)
        assert page.locator(".row.current").get_attribute("aria-rowindex") == "23"
        page.keyboard.press("Enter")
        page.wait_for_selector(".token")
