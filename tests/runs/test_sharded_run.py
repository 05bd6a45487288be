"""A run whose trainer is several processes is the run of one process with as many threads."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.library.batches import group
from tests.runs.test_pipeline import FOUR_TURNS, TINY

from patchgrad.config import dumps, override
from patchgrad.learning.objectives.clipped import Clipped
from patchgrad.networks.decoder import Decoder
from patchgrad.recipes import Recipe, tiny
from patchgrad.recipes.component import Component
from patchgrad.recipes.loss import ImportanceCorrection, KlPenalty, LossChoice
from patchgrad.recipes.stage import Stage, StageSampling
from patchgrad.runs.api import train
from patchgrad.runs.build.sharded import sharded
from patchgrad.runs.planning.estimate import plan
from patchgrad.runs.planning.shapes import shape_of
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.trainers import allocator
from patchgrad.values import StepSettings

SHORT = replace(
    TINY,
    stages=(
        Stage(
            iterations=2,
            sampling=StageSampling(tasks=2, attempts=2),
            limits=FOUR_TURNS,
            loss=LossChoice(old="recomputed", correction=ImportanceCorrection(truncate_token=2.0), kl_penalty=KlPenalty(0.01)),
        ),
    ),
)


def _run(folder: Path, recipe: Recipe) -> Run:
    with Run.create(folder, dumps(recipe)) as run:
        train(recipe, run, Silent())
    return Run.open(folder)


def _untimed(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in one.items() if name not in ("seconds", "cores_busy")} for one in metrics]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_two_ranks_write_the_metrics_and_the_checkpoints_of_two_threads(tmp_path: Path) -> None:
    threads = _run(tmp_path / "threads", replace(SHORT, optimiser=replace(SHORT.optimiser, threads=2)))
    ranks = _run(tmp_path / "ranks", replace(SHORT, trainer=Component("sharded", {"ranks": 2})))
    assert json.dumps(_untimed(threads.results.metrics())) == json.dumps(_untimed(ranks.results.metrics()))
    training = [sum(one["seconds"]["training"] for one in run.results.metrics() if "seconds" in one) for run in (threads, ranks)]
    assert training[1] > 0.3 * training[0] > 0, "ranks say what they have computed"
    assert [path.read_bytes() for path in threads.trained.files()] == [path.read_bytes() for path in ranks.trained.files()]
    names = [path.name for path in threads.checkpoints.all()]
    assert names == [path.name for path in ranks.checkpoints.all()]
    for name in names:
        one, other = (run.folder / "checkpoints" / name / "model.safetensors" for run in (threads, ranks))
        assert one.read_bytes() == other.read_bytes(), f"{name} has the same bytes"


def _most(process: int) -> int:
    """Bytes that a process has had resident."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


def test_ranks_that_give_memory_back_hold_what_the_plan_says_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {"hidden": "384", "layers": "8", "heads": "6", "kv_heads": "2", "intermediate": "1024"}
    recipe = override(
        tiny(),
        {f"policy.shape.{name}": value for name, value in shape.items()}
        | {"trainer": "sharded", "trainer.ranks": "2", "optimiser.name": "adamw", "optimiser.micro_batch_tokens": "1600"},
    )
    monkeypatch.setattr(allocator, "_tight", True)
    config, held = shape_of(recipe), {part.name: part.bytes for part in plan(recipe, room=10**11).parts}
    trainer = sharded(Decoder(config), recipe)
    ranks = [hello.process for hello in trainer._ranks.launched.ranks.hellos]
    trainer.update(group(4, 1600, 0.0, config, 1600), Clipped(), StepSettings(1e-3))
    planned = sum(size for name, size in held.items() if name.endswith("on each of 2 ranks"))
    processes = next(size for name, size in held.items() if name.startswith("interpreter and libraries of 3"))
    assert sum(map(_most, ranks)) == pytest.approx(planned + processes * 2 / 3, rel=0.15)
