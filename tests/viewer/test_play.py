"""An attempt is played as a terminal shows it: all of it, in its order, at any place, and nothing of it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.viewer import pictured
from tests.viewer.serving import browser, served, violations
from tests.viewer.synthetic import RECIPE
from tests.viewer.test_site import hostile

from patchgrad.links.listening import Place
from patchgrad.store import Run
from patchgrad.values import Call, Trajectory

pytest.importorskip("starlette")
pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(pictured.make(tmp_path_factory.mktemp("played") / "run").folder)


@pytest.fixture(scope="module")
def place(run: Run) -> Iterator[Place]:
    with served([run.folder]) as where:
        yield where


@pytest.fixture(scope="module")
def attempt(run: Run) -> Trajectory:
    return run.rollouts.read("stage1")[0].trajectory


def set_to(page: Any, share: float) -> str:
    """What the screen shows at this share of the recording."""
    script = """(share) => {
        const range = document.querySelector(".player input");
        range.value = share * Number(range.max);
        range.dispatchEvent(new Event("input"));
        return document.querySelector(".screen").textContent;
    }"""
    return str(page.evaluate(script, share))


def until(page: Any, there: Callable[[], bool]) -> None:
    """Waits until this is so; where it never is, the suite's own limit ends it."""
    while not there():
        page.wait_for_timeout(50)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_calls_and_answers_appear_in_their_order_and_go_again(scheme: str, attempt: Trajectory, place: Place) -> None:
    with browser(color_scheme=scheme) as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/{quote(attempt.id, safe='')}")
        page.click("text=Play it as a terminal")
        page.wait_for_selector(".screen")
        whole = set_to(page, 1.0)
        at = 0
        for turn in attempt.turns:
            said = [turn.observation.content]
            if isinstance(turn.call, Call):
                said.insert(0, f"{turn.call.tool} {turn.call.arguments}".rstrip())
            for text in said:
                assert text in whole[at:], f"{text!r} comes after {whole[:at][-80:]!r}"
                at = whole.index(text, at) + len(text)
        assert page.inner_text(".player button") == "Play again"
        assert violations(page) == []
        seen = [set_to(page, share) for share in (0.9, 0.4, 0.4, 0.7, 0.0)]
        assert all(whole.startswith(one) for one in seen)
        assert len(seen[0]) > len(seen[3]) > len(seen[1]) == len(seen[2]) > len(seen[4])
        assert page.inner_text(".player button") == "Play"


def test_it_plays_by_itself_and_stops_where_it_is_told(attempt: Trajectory, place: Place) -> None:
    with browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/{quote(attempt.id, safe='')}")
        page.click("text=Play it as a terminal")
        page.select_option(".player select", "2")
        page.click(".player button")
        until(page, lambda: len(page.inner_text(".screen")) > 60)
        page.click(".player button")
        stopped = page.inner_text(".screen")
        page.wait_for_timeout(300)
        assert page.inner_text(".screen") == stopped
        page.select_option(".player select", "16")
        page.click(".player button")
        until(page, lambda: page.inner_text(".player button") == "Play again")
        assert len(page.inner_text(".screen")) > len(stopped)


def test_what_a_sandbox_answered_does_not_run(tmp_path: Path) -> None:
    with Run.create(tmp_path / "run", RECIPE) as run:
        run.rollouts.write("stage1", 0, [hostile("stage1/0")])
    with served([run.folder]) as where, browser() as page:
        page.goto(f"http://127.0.0.1:{where.port}/#/attempt/0/stage1%2F0")
        page.click("text=Play it as a terminal")
        page.wait_for_selector(".screen")
        assert "<script>window.ran = true</script>" in set_to(page, 1.0)
        assert page.evaluate("() => window.ran") is None
