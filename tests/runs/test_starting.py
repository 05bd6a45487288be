"""A run that begins from a checkpoint of another one goes on as if it had been one run from the beginning."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.test_pipeline import TINY, needs_bubblewrap
from tests.runs.test_resume import attempts, weights

from patchgrad.config import dumps
from patchgrad.errors import ConfigError, StoreError
from patchgrad.networks.products import exact
from patchgrad.recipes import Recipe, laptop, smoke
from patchgrad.runs.api import train
from patchgrad.runs.phase_id import phase_ids
from patchgrad.runs.pipeline import phases
from patchgrad.runs.starting import narrowed, start_from
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run

POOL = {"tasks": ["a", "b"], "queue": ["b", "a"], "solved": {"b": 1}}


def rounds(count: int, recipe: Recipe | None = None) -> Recipe:
    """The laptop's fine-tuning alone, in so many rounds."""
    recipe = recipe or laptop()
    return replace(recipe, rft=replace(recipe.rft, rounds=count), stages=())


def saved(place: Path) -> None:
    """What stands for a model."""
    (place / "model.safetensors").write_text("weights")


def a_run(folder: Path, recipe: Recipe, position: int, checkpoint: str, kept: list[str]) -> Path:
    """The folder of a run that has done so many phases."""
    with Run.create(folder, dumps(recipe)) as run:
        for name in dict.fromkeys([*kept, checkpoint]):
            run.checkpoints.save(name, saved)
        run.results.write_metrics({"phase": "rft", "iteration": 0})
        for table in ("demonstrations-00000", "evaluate-1-00000", "rft-00000", "rft-00001"):
            (run.folder / "rollouts" / f"{table}.parquet").write_text(table)
        for iteration in (0, 1):
            run.trained.write("rft", iteration, [])
        step = str(phase_ids(recipe)[position - 1])
        run.save_state({"position": position, "step": step, "checkpoint": checkpoint, "kept": kept, "pool": POOL, "minutes": 1.5})
    return folder


@pytest.mark.parametrize("recipe", [laptop(), smoke(), rounds(0), rounds(2), replace(laptop(), rft=replace(laptop().rft, rounds=0)), TINY])
def test_phases_are_those_of_the_pipeline(recipe: Recipe) -> None:
    assert [str(id) for id in phase_ids(recipe)] == ["base", *(str(phase.id) for phase in phases(recipe))]


def test_what_both_recipes_begin_with_is_not_done_again(tmp_path: Path) -> None:
    origin = a_run(tmp_path / "origin", rounds(1), 4, "rft-0", ["base", "rft-0"])
    (origin / "status.json").write_text("{}")  # what the process of the origin said of itself
    before = {path: path.read_bytes() for path in origin.rglob("*") if path.is_file()}
    further = rounds(2, laptop())
    with start_from(origin, tmp_path / "new", further) as run:
        state, about = run.state(), run.about.read()
        assert run.recipe == dumps(further)
        assert {path.name for path in run.checkpoints.all()} == {"base", "rft-0"}
        assert {path.stem for path in (run.folder / "rollouts").iterdir()} == {"demonstrations-00000", "rft-00000"}, "of what was committed"
        assert [path.stem for path in run.trained.files()] == ["rft-00000"]
        assert not (run.folder / "status.json").exists()
    assert (state["position"], state["step"], state["kept"], state["pool"]) == (3, "rft-0", ["base"], POOL), "its evaluation comes later"
    assert about["origin"] == {"run": str(origin), "checkpoint": "rft-0"}
    with start_from(origin, tmp_path / "same", replace(rounds(1), stages=laptop().stages)) as run:
        assert (run.state()["position"], run.state()["kept"]) == (4, ["base", "rft-0"])
    assert before == {path: path.read_bytes() for path in origin.rglob("*") if path.is_file()}
    Run.resume(tmp_path / "new").close()


def test_a_new_run_may_draw_from_some_of_the_tasks_alone(tmp_path: Path) -> None:
    origin = a_run(tmp_path / "origin", rounds(0), 2, "base", ["base"])
    with start_from(origin, tmp_path / "new", rounds(1), only={"a"}) as run:
        assert run.state()["pool"] == {"tasks": ["a"], "queue": ["a"], "solved": {"b": 1}}
    with pytest.raises(ConfigError, match="None of the tasks"):
        narrowed(POOL, {"c"})


def test_what_cannot_be_gone_on_from_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    origin = a_run(tmp_path / "origin", rounds(3), 5, "rft-2", ["base"])
    with pytest.raises(ConfigError, match="rft-2 comes after base, evaluate-base, rft-0, rft-1, and this recipe has other phases"):
        start_from(origin, tmp_path / "new", rounds(2))
    with pytest.raises(StoreError, match="is there already"):
        start_from(origin, origin, rounds(3))
    Run.create(tmp_path / "empty", dumps(laptop())).close()
    with pytest.raises(ConfigError, match="No phase is done yet"):
        start_from(tmp_path / "empty", tmp_path / "new", laptop())
    (origin / "checkpoints" / "rft-2" / "model.safetensors").write_text("other")
    with pytest.raises(StoreError, match=r"/origin/checkpoints/rft-2/model.safetensors is shorter"):
        start_from(origin, tmp_path / "new", rounds(3))
    assert {path.name for path in tmp_path.iterdir()} == {"origin", "empty"}


def test_what_a_killed_writer_left_half_done_is_not_copied(tmp_path: Path) -> None:
    origin = a_run(tmp_path / "origin", rounds(1), 3, "rft-0", ["base"])
    with (origin / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"phase": "rft", "iteration": 1}) + "\n")
    with start_from(origin, tmp_path / "new", rounds(2)) as run:
        assert [row["iteration"] for row in run.results.metrics()] == [0]


@needs_bubblewrap
@pytest.mark.skipif(not exact(), reason="this machine's products depend on how many rows they have")
def test_two_recipes_one_after_the_other_are_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = replace(TINY.stages[0], iterations=1)
    whole = replace(TINY, rft=replace(TINY.rft, rounds=1), stages=(stage,), guards=replace(TINY.guards, patience=100))
    with Run.create(tmp_path / "whole", dumps(whole)) as made:
        train(whole, made, Silent())
    first = replace(whole, rft=replace(whole.rft, rounds=0), stages=())
    with Run.create(tmp_path / "first", dumps(first)) as made:
        train(first, made, Silent())
    with start_from(tmp_path / "first", tmp_path / "second", whole) as made:
        train(whole, made, Silent())
    assert weights(tmp_path / "second") == weights(tmp_path / "whole")
    assert attempts(tmp_path / "second") == attempts(tmp_path / "whole")
    assert [report.name for report in Run.open(tmp_path / "second").results.reports()] == ["base", "+ RFT", "+ stage 1 RL"]
