"""Tokens tell what the updates made of them: in the data, by colours, and under the pointer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from tests.viewer import pictured
from tests.viewer.serving import browser, served

from patchgrad.links.listening import Place
from patchgrad.store import Run
from patchgrad.values import TrainedTurn, floats
from patchgrad.viewer.site.shown import shown, whole

pytest.importorskip("starlette")
pytest.importorskip("tokenizers")
ASKING = ("mask", "advantage", "entropy", "ratio")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(pictured.make(tmp_path_factory.mktemp("trained") / "run").folder)


@pytest.fixture(scope="module")
def place(run: Run) -> Iterator[Place]:
    with served([run.folder]) as where:
        yield where


def some(run: Run) -> list[TrainedTurn]:
    """The turns of an attempt that two updates trained."""
    turns = run.trained.read("stage1", 3)
    return [one for one in turns if one.attempt == turns[0].attempt]


def test_a_turn_has_what_each_update_made_of_it(run: Run) -> None:
    turns = some(run)
    told = shown(run, turns[0].attempt)
    found = {(turn["number"], one["update"]): one for turn in told["turns"] for one in turn["trained"]}
    assert found.keys() == {(one.turn, one.update) for one in turns}
    for one in turns:
        assert found[one.turn, one.update]["logprobs"] == pytest.approx(one.logprobs.tolist(), rel=1e-3)
        assert len(found[one.turn, one.update]["entropies"]) == len(told["turns"][one.turn - 1]["ids"])
        assert found[one.turn, one.update]["advantages"] == pytest.approx(float(one.advantages[0]), abs=1e-4), "alike for all tokens"
        assert found[one.turn, one.update]["old"] == "sampled", "what the sampler said stands there already"
    assert told["turns"] == next(one for one in whole(run, "stage1", 3) if one["id"] == turns[0].attempt)["turns"]


def test_what_differs_between_tokens_is_told_of_each(tmp_path: Path) -> None:
    run = pictured.make(tmp_path / "run")
    attempt = run.rollouts.read("stage1", 3)[0].trajectory
    size = len(attempt.turns[0].action.token_ids)
    parts = [floats([float("nan"), *np.linspace(-1, 1, size - 1) - shift]) for shift in range(5)]
    with Run.resume(run.folder) as again:
        again.trained.write("stage1", 3, [TrainedTurn(attempt.id, 1, 0, 7, *parts)])
    (told,) = shown(run, attempt.id)["turns"][0]["trained"]
    for part, name in zip(parts, ("advantages", "weights", "old", "logprobs", "entropies"), strict=True):
        assert told[name][0] is None
        assert told[name][1:] == pytest.approx(part[1:].tolist(), rel=1e-3)


def test_an_action_that_was_learned_after_another_prompt_has_no_ratio(tmp_path: Path) -> None:
    run = pictured.make(tmp_path / "run")
    turn = run.trained.read("stage1", 3)[0]
    with Run.resume(run.folder) as again:
        again.trained.write("stage1", 3, [replace(turn, old=floats(np.full(len(turn.old), np.nan)))])
    with served([run.folder]) as where, browser() as page:
        page.goto(f"http://127.0.0.1:{where.port}/#/attempt/0/{quote(turn.attempt, safe='')}?turn={turn.turn}&colour=ratio")
        token = page.locator(f"#turn-{turn.turn} .token").nth(1)
        token.hover()
        assert "entropy" in page.inner_text("#tip")
        assert "ratio" not in page.inner_text("#tip")
        assert token.evaluate("(one) => getComputedStyle(one).backgroundColor") == "rgba(0, 0, 0, 0)"


def test_a_row_of_another_attempt_is_not_shown(tmp_path: Path) -> None:
    run = pictured.make(tmp_path / "run")
    turn = run.trained.read("stage1", 3)[0]
    short = TrainedTurn(turn.attempt, turn.turn, 0, 1, *[floats([0.5])] * 5)
    with Run.resume(run.folder) as again:
        again.trained.write("stage1", 3, [short])
    assert [one["trained"] for one in shown(run, turn.attempt)["turns"] if one["trained"]] == []


def test_a_damaged_table_takes_no_attempt_with_it(tmp_path: Path) -> None:
    run = Run.open(pictured.make(tmp_path / "run").folder)
    attempt = some(run)[0].attempt
    for path in run.trained.files():
        path.write_bytes(path.read_bytes()[:100])
    assert [turn["trained"] for turn in shown(run, attempt)["turns"] if turn["trained"]] == []


def test_tokens_are_coloured_by_what_the_chosen_update_made_of_them(run: Run, place: Place) -> None:
    turns = some(run)
    number = turns[0].turn
    first, last = (next(one for one in turns if one.turn == number and one.update == update) for update in (0, 1))
    with browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/{quote(first.attempt, safe='')}?turn={number}")
        tokens = page.locator(f"#turn-{number} .token")
        tokens.nth(1).wait_for()
        backgrounds = {}
        for colour in ASKING:
            page.select_option("#colour", colour)
            assert f"colour={colour}" in page.url
            backgrounds[colour] = page.evaluate(
                f"[...document.querySelectorAll('#turn-{number} .token')].map((one) => getComputedStyle(one).backgroundColor)"
            )
        assert len(set(backgrounds["entropy"])) > 1
        assert len(set(backgrounds["advantage"])) == 1, "all tokens of these turns have one advantage"
        for one in (last, first):
            page.select_option("#update", str(one.update))
            tokens.nth(0).hover()
            tokens.nth(1).hover()
            told = page.inner_text("#tip")
            assert f"advantage {float(one.advantages[1]):.4g}" in told
            ratio = re.search(r"ratio ([\d.]+)", told)
            assert ratio is not None
            assert float(ratio[1]) == pytest.approx(float(np.exp(one.logprobs[1] - one.old[1])), abs=2e-3)
        assert "update=0" in page.url
        page.reload()
        page.wait_for_selector("#update")
        assert page.input_value("#update") == "0"


def test_an_attempt_that_nothing_trained_says_so_and_offers_no_such_colours(run: Run, place: Place) -> None:
    attempt = run.rollouts.rows("evaluate-1", columns=["attempt"])[0]["attempt"]
    with browser() as page:
        page.goto(f"http://127.0.0.1:{place.port}/#/attempt/0/{quote(attempt, safe='')}?colour=advantage")
        page.wait_for_selector("#turn-1 .token")
        assert page.get_attribute("#turns", "data-colour") == "probability"
        assert "No figures of an update of this attempt are kept." in page.inner_text(".bar")
        assert page.locator("#colour option[disabled]").count() == len(ASKING)
        for _ in range(4):
            page.keyboard.press("c")
            assert page.get_attribute("#turns", "data-colour") in ("none", "probability", "version")
