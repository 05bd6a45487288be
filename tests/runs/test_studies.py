"""The arms of a study are recipes, spend what its control does or up to a fifth more, and differ in what they are named after."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.library import runs
from benchmarks.studies import climb, smol
from benchmarks.studies import study as studies
from benchmarks.studies.ablations import ABLATIONS
from benchmarks.studies.ahead import AHEAD
from benchmarks.studies.forking import FORKING

from patchgrad.config import dumps, leaves, override
from patchgrad.evaluation import from_outcomes
from patchgrad.recipes import Recipe, laptop, tiny
from patchgrad.store import Run, plain
from patchgrad.values import Report

STUDIES = [ABLATIONS, FORKING, AHEAD]


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


def test_what_a_study_keeps_of_a_recipe_is_read_back_equal_and_tells_two_recipes_apart() -> None:
    recipe = override(laptop(), {"reward": "mine:small", "reward.weight": "2"})
    assert json.loads(json.dumps(runs.said(recipe))) == runs.said(recipe) == runs.said(replace(recipe, name="other", seed=7))
    assert runs.said(recipe) != runs.said(laptop())


def test_the_table_of_the_eight_seeds_tells_what_each_policy_adds_and_refuses_another_recipe(tmp_path: Path) -> None:
    reports = [plain(one) for one in measured(("base", 1), ("rft", 2), ("one", 3), ("two", 4), ("alone", 2))]
    shared = {"processor": "any", "load": "idle", "minutes": 9.0, "recipe": runs.said(laptop()), "reports": reports}
    for seed in (101, 102):
        (tmp_path / f"{seed}.json").write_text(json.dumps({"seed": seed, **shared}))
    told = climb.table(tmp_path)
    assert [row["seed"] for row in told["rows"]] == [101, 102]
    assert [round(step["difference"]["mean"], 3) for step in told["steps"]] == [0.25, 0.25, 0.25, 0.5]
    (tmp_path / "103.json").write_text(json.dumps({"seed": 103, **shared, "recipe": {"rft": {"rounds": 7}}}))
    with pytest.raises(SystemExit, match="103"):
        climb.table(tmp_path)


def test_a_key_that_came_later_makes_no_other_recipe() -> None:
    then = {"lr": 1.0, "stages": [{"tasks": 8}]}
    assert runs.same(then, {"lr": 1.0, "stages": [{"tasks": 8, "forks": 0}], "judges": []})
    for now in ({"lr": 2.0, "stages": [{"tasks": 8}]}, {"lr": 1.0, "stages": [{"tasks": 9}]}, {"lr": 1.0, "stages": []}, {"lr": 1.0}):
        assert not runs.same(then, now)


def test_a_seed_keeps_its_four_policies_and_that_of_fine_tuning_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = override(tiny(), {"validation.tasks": "1", "seed": "5"})
    monkeypatch.setattr(climb, "recipe_of", lambda _: recipe)
    monkeypatch.setattr(climb, "TASKS", 2)
    climb.run_one(5, "", tmp_path / "work", tmp_path)
    told = json.loads((tmp_path / "5.json").read_text())
    assert [one["name"] for one in told["reports"]] == list(climb.POLICIES)
    assert told["reports"][0]["about"]["policy"] == "5/checkpoints/base"
    assert str(tmp_path) not in (tmp_path / "5.json").read_text(), "a file that is kept does not tell where it was made"
    assert (told["seed"], told["load"], told["recipe"]) == (5, "idle", runs.said(recipe))
    assert told["choice"].startswith("stage 2 hands on")
    assert len(told["metrics_alone"]) == recipe.rft.rounds + climb.ROUNDS


def test_a_seed_of_a_model_keeps_its_policies_and_what_one_from_scratch_solves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = override(tiny(), {"seed": "5"})
    monkeypatch.setattr(smol, "recipe_of", lambda _: recipe)
    monkeypatch.setattr(smol, "SEEDS", (5,))
    smol.run_one(5, None, tmp_path / "work", tmp_path)
    smol.run_one(5, tmp_path / "work" / "5", tmp_path / "work", tmp_path)
    told = json.loads((tmp_path / "5.json").read_text())
    assert [one["name"] for one in told["reports"]] == [*smol.PHASES, smol.SCRATCH]
    assert told["minutes"] > 0
    assert str(tmp_path) not in (tmp_path / "5.json").read_text(), "a file that is kept does not tell where it was made"
    found = smol.table(tmp_path)
    assert [*found["generated"]["rows"]] == [*smol.PHASES, smol.SCRATCH]
    assert found["packages"] == {"rows": {}, "steps": []}, "tiny has generated tasks alone"


def measured(*solved: tuple[str, int]) -> list[Report]:
    """Reports of four tasks, of which each policy solves so many."""
    return [from_outcomes(name, {f"task-{n}": (n < count,) for n in range(4)}, 1, 60.0) for name, count in solved]


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
