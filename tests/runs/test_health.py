"""A stage whose attempts no longer submit, go on or can be read ends before its last iteration, and says why."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runs.test_pipeline import TINY

from patchgrad.config import dumps
from patchgrad.errors import ConfigError
from patchgrad.recipes.stage import Health
from patchgrad.runs.api import train
from patchgrad.runs.phase_id import PhaseId
from patchgrad.runs.phases.health import ailing, shares
from patchgrad.runs.phases.reinforce import over
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.values import Event, Note

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def row(submitted: float = 1.0, looping: int = 0, unreadable: int = 0) -> dict[str, object]:
    """An iteration of ten attempts of ten turns."""
    return {"episodes": 10, "turns": 10.0, "submitted": submitted, "failures": {"looping": looping, "no command": unreadable}}


def test_a_stage_ends_when_iterations_in_a_row_break_a_bound_and_one_that_holds_begins_anew() -> None:
    health = Health(submitted=0.7, patience=2)
    assert ailing(health, [row(0.9), row(0.6), row(0.65)]) == "submitted is 0.6, 0.65, below 0.7"
    assert not ailing(health, [row(0.6), row(0.9), row(0.65)])
    assert not ailing(health, [row(0.6)]), "one iteration is not two"
    assert not ailing(health, [row(0.7), row(0.7)]), "a bound is still within"


def test_each_share_is_told_by_its_name() -> None:
    sick = [row(0.1, looping=30, unreadable=50)]
    told = ailing(Health(0.5, 0.2, 0.4, patience=1), sick)
    assert told == "submitted is 0.1, below 0.5; looping is 0.3, above 0.2; unreadable is 0.5, above 0.4"


def test_an_iteration_that_broke_altogether_says_nothing_of_the_policy() -> None:
    assert shares({"episodes": 0, "updates": 0, "broken": 1.0}) == {}
    assert not ailing(Health(submitted=1.0, patience=1), [{"episodes": 0}])


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 50), st.integers(0, 50)), max_size=6), st.integers(1, 4))
def test_bounds_that_are_not_set_end_no_stage(iterations: list[tuple[float, int, int]], patience: int) -> None:
    assert not ailing(Health(patience=patience), [row(*one) for one in iterations])


def test_a_bound_that_is_no_share_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"health\.submitted"):
        Health(submitted=70)
    with pytest.raises(ConfigError, match=r"health\.patience"):
        Health(patience=0)


class Remembering(Silent):
    """Keeps the lines that stay."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def event(self, event: Event) -> None:
        if isinstance(event, Note) and event.stays:
            self.told.append(event.text)


@needs_bubblewrap
def test_a_stage_of_a_run_ends_there_and_the_next_one_begins(tmp_path: Path) -> None:
    first, second = TINY.stages
    stages = (replace(first, iterations=4, health=Health(submitted=1.0)), replace(second, iterations=1))
    recipe, tracker = replace(TINY, stages=stages), Remembering()
    with Run.create(tmp_path / "run", dumps(recipe)) as run:
        train(recipe, run, tracker)
    done = [(m["phase"], m["iteration"]) for m in Run.open(tmp_path / "run").results.metrics()]
    assert done == [("rft", 0), ("stage1", 0), ("stage1", 1), ("stage2", 0)]
    assert [text for text in tracker.told if text.startswith("stage 1 ends: submitted is ")]


def test_a_row_that_a_killed_run_wrote_of_the_iteration_itself_does_not_end_the_stage_before_it(tmp_path: Path) -> None:
    stage = replace(TINY.stages[0], iterations=4, health=Health(submitted=0.7))
    with Run.create(tmp_path / "run", dumps(TINY)) as run:
        for iteration in range(2):
            run.results.write_metrics({"phase": "stage1", "iteration": iteration, **row(0.1)})
        run.results.write_metrics({"phase": "rft", "iteration": 0, **row(0.1)})
        context = cast(Any, SimpleNamespace(run=run))
        ends = [bool(over(context, cast(Any, None), PhaseId("reinforce", 1, iteration), stage)) for iteration in (1, 2, 3)]
    assert ends == [False, True, True]
