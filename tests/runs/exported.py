"""A small run that is over, for tests of what is exported of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.runs.test_pipeline import TINY

from patchgrad.config import dumps
from patchgrad.recipes.recipe import AgentChoice
from patchgrad.runs.api import train
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run

ANNOUNCED = replace(TINY, agent=AgentChoice(announced=2, repeats=3))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Its agent is told of its last turns and of calls that it repeats."""
    folder = tmp_path_factory.mktemp("exported") / "run"
    with Run.create(folder, dumps(ANNOUNCED)) as made:
        train(ANNOUNCED, made, Silent())
    return Run.open(folder)


def attempts(run: Run) -> dict[str, Any]:
    """Every attempt of a run by its id."""
    phases = {(row["phase"], row["iteration"]) for row in run.rollouts.rows(columns=["phase", "iteration"])}
    return {one.trajectory.id: one for phase, number in phases for one in run.rollouts.read(phase, number)}
