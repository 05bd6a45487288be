"""The pictures of the guide: each page that one shows opens, and with PATCHGRAD_PICTURES=1 they are taken anew into docs/images."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.viewer import pictured
from tests.viewer.serving import browser, served

from patchgrad.links.listening import Place

pytest.importorskip("starlette")
pytest.importorskip("tokenizers")

DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 150_000


@dataclass(frozen=True, slots=True)
class Picture:
    """An address of the page, what is there once it is drawn, and what is done before it is taken."""

    address: str
    ready: str
    then: str = ""
    height: int = 640
    scheme: str = "light"


PLAYED = """(async () => {
    document.querySelector(".played").open = true;
    await new Promise((done) => setTimeout(done, 300));
    const range = document.querySelector(".player input");
    range.value = 0.9 * Number(range.max);
    range.dispatchEvent(new Event("input"));
    document.querySelector(".played").scrollIntoView();
})()"""
PICTURES = {
    "report": Picture("#/report/0", ".report h1", height=900),
    "list": Picture("#/list/0?failure=timeout&where=turns%3E%3D5", ".body .row"),
    "attempt": Picture("#/attempt/0/stage1%2F3%2F0%2F0", ".token", "document.getElementById('turn-3').scrollIntoView()", 800),
    "entropy": Picture(
        "#/attempt/0/stage1%2F3%2F0%2F0?colour=entropy", ".token", "document.getElementById('turn-1').scrollIntoView()", 480
    ),
    "play": Picture("#/attempt/0/stage1%2F3%2F0%2F0", ".token", PLAYED, 460),
    "forks": Picture("#/attempt/0/stage1%2F3%2F0%2F0%2B3.1", ".forks li", height=560),
    "pair": Picture(
        "#/pair?one=0%3Astage1%2F3%2F0%2F0&two=0%3Astage1%2F3%2F0%2F0%2B3.1",
        ".pair section",
        "document.querySelector('.parted').scrollIntoView()",
    ),
    "curves": Picture(
        "#/curves?runs=0,1,2&metric=pass_at_1&axis=tokens",
        ".plot .dot",
        "document.querySelector('.plot').dispatchEvent(new KeyboardEvent('keydown', {key: 'End'}))",
        660,
        "dark",
    ),
    "tasks": Picture("#/tasks?one=0%3A0&two=0%3A2", ".tasks td", height=620),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("pictures")
    runs = [pictured.make(folder / "laptop-0"), pictured.make(folder / "laptop-1", seed=1, better=0.1)]
    with served([run.folder for run in runs]) as where:
        yield where


@pytest.mark.parametrize("name", PICTURES)
def test_the_page_of_each_picture_opens(name: str, place: Place) -> None:
    picture = PICTURES[name]
    with browser(viewport={"width": 1200, "height": picture.height}, color_scheme=picture.scheme) as page:
        page.goto(f"http://127.0.0.1:{place.port}/{picture.address}")
        page.wait_for_selector(picture.ready)
        page.evaluate(picture.then or "null")
        page.wait_for_timeout(700)
        if os.environ.get("PATCHGRAD_PICTURES"):
            page.screenshot(path=str(DOCS / "images" / f"viewer-{name}.png"))


def test_the_guide_shows_each_picture_and_none_is_large() -> None:
    shown = set(re.findall(r"\(\.\./images/viewer-(\w+)\.png\)", (DOCS / "guide" / "viewer.md").read_text()))
    assert shown == set(PICTURES)
    assert all((DOCS / "images" / f"viewer-{name}.png").stat().st_size < LARGEST for name in PICTURES)
