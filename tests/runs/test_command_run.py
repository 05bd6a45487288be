"""A run whose agent is a program in the sandbox: it trains, an interrupted one goes on, and its audit finds every token."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agents.gateway.test_inside import small
from tests.models.small import written
from tests.runs.test_pipeline import TINY, Interrupting

from patchgrad.config import dumps
from patchgrad.errors import ConfigError
from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.component import Component
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.recipe import AgentChoice, Recipe
from patchgrad.runs.api import train
from patchgrad.runs.inspection.audit import audit
from patchgrad.store import Run


def commanded(model: Path) -> Recipe:
    """A model that nobody taught, under a program that ends where nothing is called."""
    argv = list(small("messages").argv)
    return replace(
        TINY,
        policy=replace(TINY.policy, model=str(model), context=2048),
        agent=AgentChoice(action_tokens=16, scaffold=Component("command", {"argv": argv})),
        optimiser=Optimiser(name="adamw", rank=4),
        reward=Component("tests.runs.test_replayed_run:parity"),
        stages=(replace(TINY.stages[0], advantage=AdvantageChoice(filter_on="reward")),),
        evaluation=replace(TINY.evaluation, after="last", every=0),
    )


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_program_in_the_sandbox_is_trained_and_audited(tmp_path: Path) -> None:
    written(tmp_path / "model", context=2048)
    recipe, first = commanded(tmp_path / "model"), Interrupting("stage 1, iteration 1")
    with pytest.raises(KeyboardInterrupt), Run.create(tmp_path / "run", dumps(recipe)) as run:
        train(recipe, run, first)
    with Run.resume(tmp_path / "run") as run:
        train(recipe, run, Interrupting(""))
    done = Run.open(tmp_path / "run")
    rows = done.rollouts.rows()
    assert {row["stop"] for row in rows} == {"submitted"}
    found = audit(done)
    assert all(one.sound for one in found)
    assert sum(one.trained for one in found) > 0


def test_a_network_from_nothing_has_no_demonstrations_for_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no demonstrations.*policy\.model"):
        replace(TINY, agent=AgentChoice(scaffold=Component("command", {"argv": ["true", "{instruction}"]})))
