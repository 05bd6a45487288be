"""The arms of a study are recipes, spend what its control does or up to a fifth more, and differ in what they are named after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.library import runs
from benchmarks.studies import climb
from benchmarks.studies import study as studies
from benchmarks.studies.ablations import ABLATIONS
from benchmarks.studies.forking import FORKING

from patchgrad.config import dumps, leaves, override
from patchgrad.recipes import Recipe, laptop
from patchgrad.store import Run

STUDIES = [ABLATIONS, FORKING]


CONTRAST = 0.37  # of groups of four on hard tasks, which alone are forked: seen in the study


def attempts(recipe: Recipe) -> float:
    """Of fine-tuning and RL, forks included."""
    tried = sum(s.iterations * d.tasks * (d.attempts + CONTRAST * d.forks * d.continuations) for s in recipe.stages for d in [s.sampling])
    return recipe.rft.rounds * recipe.rft.tasks * recipe.rft.attempts + tried


@pytest.mark.parametrize(("study", "name"), [(study, name) for study in STUDIES for name in study.arms], ids=lambda item: str(item)[:20])
def test_every_arm_spends_what_the_control_spends(study: Any, name: str) -> None:
    control, arm = study.recipe(study.control, 1), study.recipe(name, 1)
    assert -0.03 < attempts(arm) / attempts(control) - 1 < 0.2
    if name != study.control:
        one, other = leaves(control), leaves(arm)
        differing = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)} - {"name", "evaluation.after", "stages"}
        expected = set(study.arms[name]) | {key for key in one if key.startswith("stages.1.") and len(arm.stages) < 2}
        assert differing <= expected | {key for key in one if key.startswith("stages.") and not arm.stages}
        assert differing


def test_fine_tuning_alone_has_the_attempts_of_the_recipe_and_half_of_the_seeds_are_older_and_half_busy() -> None:
    recipe, further = climb.recipe_of(101), climb.alone(climb.recipe_of(101)).rft
    in_rl = attempts(replace(recipe, rft=replace(recipe.rft, rounds=0)))
    assert (further.rounds - recipe.rft.rounds) * further.tasks * further.attempts == in_rl
    for kind in (climb.older, climb.busy):
        assert sum(map(kind, climb.SEEDS)) == 4
    assert sum(climb.older(seed) and climb.busy(seed) for seed in climb.SEEDS) == 2, "every combination stands twice"


def test_a_hard_study_draws_only_what_the_base_never_solved() -> None:
    rows = [{"task": "a", "solved": False}, {"task": "b", "solved": False}, {"task": "b", "solved": True}, {"task": "a", "solved": False}]
    assert studies.unsolved(rows) == {"a"}


def test_a_study_goes_on_from_where_another_run_was_by_a_recipe_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = override(laptop(), {"name": "arm"})
    with Run.create(tmp_path / "base", dumps(laptop())) as base:
        base.checkpoints.save("base", lambda folder: None)
        base.save_state({"position": 2, "checkpoint": "base", "kept": ["base"], "pool": {"tasks": ["a", "b"], "queue": ["b"]}})
    monkeypatch.setattr(runs, "train", lambda recipe, run, progress: run.save_state({**run.state(), "seen": recipe.name}))
    folder = runs.finished(tmp_path / "arm", arm, tmp_path / "base", only={"a"})
    after = Run.open(folder)
    assert (after.recipe, after.state()["pool"], after.state()["seen"]) == (dumps(arm), {"tasks": ["a"], "queue": []}, "arm")
    assert runs.finished(folder, arm, tmp_path / "base") == folder, "one that is there goes on"
    with pytest.raises(SystemExit, match="another recipe"):
        runs.finished(folder, laptop())
