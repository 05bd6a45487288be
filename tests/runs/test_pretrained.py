"""A model of the user's learns the protocol from demonstrations before anything else."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.models.small import written
from tests.runs.test_pipeline import TINY, Interrupting

from patchgrad.cli import main
from patchgrad.config import dumps
from patchgrad.errors import ConfigError
from patchgrad.grading import Grader
from patchgrad.networks import folder
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.recipes.bounds import Guards
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.recipe import AgentChoice, Recipe
from patchgrad.recipes.warmup import DemonstratorOptions, Warmup
from patchgrad.rollouts.journals import NullJournal
from patchgrad.runs.api import train
from patchgrad.runs.build.harness import harness, sandboxes
from patchgrad.runs.phases.base_policy import _lessons
from patchgrad.runs.session import RunContext, RunTasks
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.tasks.archive import pack, store
from patchgrad.values import Checks, Rollout, Task

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def warmed(model: Path) -> Recipe:
    """A run of a warm-up of a model's adapters, and one stage."""
    warmup = replace(TINY.warmup, pretrained=True, edit_drills=0, first_turns=0, demonstrator=replace(TINY.warmup.demonstrator, quotes=1.0))
    return replace(
        TINY,
        policy=replace(TINY.policy, model=str(model), context=2048),
        agent=AgentChoice(action_tokens=96),
        optimiser=Optimiser(name="adamw", rank=4, frozen=("model.layers.0.*",)),
        warmup=warmup,
        stages=TINY.stages[:1],
        evaluation=replace(TINY.evaluation, after="last", every=0),
    )


@needs_bubblewrap
def test_a_model_is_warmed_up_by_its_adapters_and_a_run_that_was_interrupted_goes_on_from_there(tmp_path: Path) -> None:
    written(tmp_path / "model", context=2048)
    recipe, first = warmed(tmp_path / "model"), Interrupting("rejection")
    with pytest.raises(KeyboardInterrupt), Run.create(tmp_path / "run", dumps(recipe)) as run:
        train(recipe, run, first)
    assert [name.partition(",")[0] for name in first.stages] == ["demonstrations", "warm-up", "rejection fine-tuning"]
    with Run.resume(tmp_path / "run") as run:
        train(recipe, run, Interrupting(""))
    done = Run.open(tmp_path / "run")
    steps = {path.name: json.loads((path / "trainer.json").read_text())["version"] for path in done.checkpoints.all()}
    assert steps["base"] == 1, "four episodes are one step"
    own, base, last = (
        dict(folder.load(place).named_parameters())
        for place in (tmp_path / "model", tmp_path / "run" / "checkpoints" / "base", tmp_path / "run" / "policy")
    )
    moved = {name for name in own if not torch.equal(own[name], base[name])}
    assert moved
    assert all("layers.1." in name for name in moved), "adapters of the layers that are not frozen"
    assert own.keys() == last.keys()
    shown = done.rollouts.read("demonstrations", 0)
    tokenizer = ChatTokenizer.load(tmp_path / "model")
    said = [tokenizer.decode(turn.action.token_ids.tolist()) for rollout in shown for turn in rollout.trajectory.turns]
    assert any("replace " in text and re.match("[0-9]+: ", text) for text in said)


@needs_bubblewrap
def test_a_run_that_has_nothing_to_learn_from_says_so_when_it_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "model", context=2048)
    recipe = replace(warmed(tmp_path / "model"), warmup=TINY.warmup, stages=(), guards=Guards())
    (tmp_path / "recipe.toml").write_text(dumps(recipe))
    for command in ([str(tmp_path / "recipe.toml"), "--run", str(tmp_path / "run")], ["--run", str(tmp_path / "run"), "--resume"]):
        assert main(["train", *command, "--json"]) == 2
        out, told = capsys.readouterr()
        assert "No iteration of fine-tuning or RL made an update: no update was made, as no attempt was worth imitating" in told
        assert "(1 of 1 iterations). The run is whole" in told
        assert Path(json.loads(out)["page"]).is_file()
    assert [report.name for report in Run.open(tmp_path / "run").results.reports()] == ["+ RFT"]


def test_what_is_imitated_alone_where_it_is_solved_has_to_be_graded() -> None:
    with pytest.raises(ConfigError, match="drills and looks are not graded"):
        Warmup(imitates="solved")
    assert Warmup(imitates="solved", edit_drills=0, first_turns=0).imitates == "solved"


SOURCE = "def low(a, b):\n    return a < b\n\n\ndef high(a, b):\n    return a > b\n"
PATCH = "--- a/till.py\n+++ b/till.py\n@@ -5,2 +5,2 @@\n def high(a, b):\n-    return a > b\n+    return a != b\n"


def planted(folder: Path, id: str, patch: str) -> Task:
    """A task in a package of one file, whose bug is what the patch does."""
    repository = replace(store(folder, pack({"till.py": SOURCE.encode()})), patch=patch)
    tags = {"file": "till.py", "line": "6", "function": "high", "source": "forge"}
    return Task(id, "high(1, 2) gives True.\nopen till.py 6\n", repository, Checks((), ()), tags=tags)


@needs_bubblewrap
def test_no_demonstration_shows_a_wrong_line_of_a_held_out_task(tmp_path: Path) -> None:
    shown = planted(tmp_path, "shown", PATCH)
    held_out = planted(tmp_path, "held out", PATCH.replace("!=", "=="))
    options = DemonstratorOptions(skill=0.0, resigns=0.0, slips=0.0, tests=0.0)
    recipe = replace(TINY, warmup=Warmup(demonstrations=16, edit_drills=0, first_turns=0, turns=4, demonstrator=options))

    async def lessons(others: tuple[Task, ...]) -> list[Rollout]:
        boxes = sandboxes(recipe.sandbox)
        tools = harness(recipe.agent, recipe.sandbox, Grader(boxes, {}), NullJournal(), lambda _: None)
        try:
            context = RunContext(recipe, RunTasks((shown,), others, ((shown,),)), Run.open(tmp_path / "run"), Silent(), tools)
            return await _lessons(context, ChatTokenizer.train([], 300))
        finally:
            await boxes.close()

    Run.create(tmp_path / "run", dumps(recipe)).close()
    every, left = (asyncio.run(lessons(others)) for others in ((), (held_out,)))
    told = [[turn.observation.content for turn in rollout.trajectory.turns] for rollout in every]
    leaking = [any("return a == b" in text for text in episode) for episode in told]
    assert 0 < sum(leaking) < len(leaking)
    assert [rollout.trajectory.id for rollout in left] == [
        rollout.trajectory.id for rollout, leaks in zip(every, leaking, strict=True) if not leaks
    ]
