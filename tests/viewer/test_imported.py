"""Attempts of other agents in a browser: text without tokens, and what no file judges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runs.test_imports import MINI, OPENHANDS, lines
from tests.viewer.serving import browser, served, violations

from patchgrad.errors import Refused
from patchgrad.links.listening import Place
from patchgrad.runs.imports.importing import imported

pytest.importorskip("starlette")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("imported")
    imported([lines(folder / "rows.jsonl", OPENHANDS, {**MINI, "instance_id": "mini"})], folder / "run", Refused())
    with served([Path(folder / "run")]) as where:
        yield where


def test_an_attempt_that_no_file_judges_is_neither_solved_nor_not(place: Place) -> None:
    with browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/list/0")
        page.get_by_text("? not judged").wait_for()
        assert page.get_by_text("✓ solved").count() == 1
        assert page.get_by_text("✗ not").count() == 0


def test_text_without_tokens_offers_no_colours(place: Place) -> None:
    with browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/chatcmpl-1")
        page.get_by_text("execute_bash", exact=True).wait_for()
        assert page.get_by_text('"name": "finish"').count() == 1
        assert not page.get_by_text("Tokens coloured by").is_visible()
        assert violations(page) == []
