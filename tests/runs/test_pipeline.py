from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from tests.runs.forged import Inheriting, inherited

from patchgrad.config import dumps, loads
from patchgrad.contracts import Capabilities
from patchgrad.errors import ConfigError, TrainingStopped
from patchgrad.evaluation import details
from patchgrad.grading import Grader
from patchgrad.networks.rounding import multiplies_bfloat16
from patchgrad.policies.embedded import ChatTokenizer
from patchgrad.recipes import RECIPES, Recipe
from patchgrad.recipes.advantage import AdvantageChoice
from patchgrad.recipes.bounds import Bound, Guards
from patchgrad.recipes.component import Component
from patchgrad.recipes.evaluation_choice import EvaluationChoice, Validation
from patchgrad.recipes.failures import Failures
from patchgrad.recipes.limits import AttemptLimits
from patchgrad.recipes.loss import ImportanceCorrection, KlPenalty, LossChoice
from patchgrad.recipes.optimiser import Optimiser
from patchgrad.recipes.recipe import AgentChoice, Mix, SandboxChoice, TaskSource
from patchgrad.recipes.rft import Rft
from patchgrad.recipes.stage import LengthPenalty, Stage, StageSampling, Start
from patchgrad.recipes.warmup import DemonstratorOptions, Warmup
from patchgrad.rollouts.journals import NullJournal
from patchgrad.runs.api import train
from patchgrad.runs.build import learner as learners
from patchgrad.runs.build.harness import harness, sandboxes
from patchgrad.runs.demonstrations.lessons import Lesson, demonstrate
from patchgrad.runs.phase_id import PhaseId
from patchgrad.runs.phases import choice
from patchgrad.runs.phases.evaluation import between
from patchgrad.runs.pipeline import phases
from patchgrad.runs.record import EARLIER, TOLD
from patchgrad.runs.session import RunContext, RunTasks
from patchgrad.runs.tasks import run_tasks
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.sandboxes.bwrap import BwrapSandboxes
from patchgrad.store import Run
from patchgrad.tasks.synthetic import synthetic_tasks
from patchgrad.values import Evaluated, Event, PhaseBegan, Rollout
from patchgrad.viewer.page import CHARTS

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
FOUR_TURNS = AttemptLimits(turns=4, context=1024)
TINY = Recipe(
    name="tiny",
    tasks=TaskSource(train=6, held_out=2),
    sandbox=SandboxChoice(concurrency=4),
    warmup=Warmup(demonstrations=4, edit_drills=6, first_turns=6, tasks=6, turns=6),
    rft=Rft(tasks=2, attempts=2, limits=AttemptLimits(turns=4, context=1536)),
    stages=(
        Stage(iterations=1, sampling=StageSampling(tasks=2, attempts=2), limits=FOUR_TURNS, reward=LengthPenalty(2, 0.1)),
        Stage(
            algorithm="gspo",
            iterations=4,
            plateau=1,
            start=Start(refresh_before=True),
            sampling=StageSampling(tasks=2, attempts=2, top_p=0.9),
            limits=FOUR_TURNS,
            reward=LengthPenalty(2, 0.1),
            advantage=AdvantageChoice(filter_on="reward", failures=Failures(overlong="mask", looping="penalise")),
            loss=LossChoice(
                old="recomputed",
                correction=ImportanceCorrection(truncate_token=2.0, mask_geometric=(0.5, 2.0)),
                kl_penalty=KlPenalty(0.01),
            ),
        ),
    ),
    optimiser=Optimiser(name="muon", frozen=("model.embed_tokens.weight",)),
    evaluation=EvaluationChoice(attempts=1, temperature=0.5, every=2, sample=1, limits_per_policy="own"),
    guards=Guards(patience=100, idle=Bound(0.5, 2.0)),  # it solves nothing, on purpose
)


class Interrupting(Silent):
    """Presses Ctrl-C when a stage of this name begins."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at, self.stages, self.tables = at, list[str](), list[int]()

    def event(self, event: Event) -> None:
        if isinstance(event, Evaluated):
            self.tables.append(len(event.reports))
        if isinstance(event, PhaseBegan):
            self.stages.append(event.name)
            if self.at and event.name.startswith(self.at):
                raise KeyboardInterrupt


@needs_bubblewrap
def test_an_interrupted_run_goes_on_and_its_policy_can_be_a_base_model_and_a_forged_sampler_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt), Run.create(folder, dumps(TINY)) as run:
        train(TINY, run, Interrupting("stage 1"))
    assert [report.name for report in Run.open(folder).results.reports()] == ["base", "+ RFT"]

    assert json.loads((folder / "state.json").read_text())["kept"] == ["base", "rft-0"]
    assert json.loads((folder / "run.json").read_text())["rounding"] == multiplies_bfloat16()
    second = Interrupting("")
    with Run.resume(folder) as run:
        train(TINY, run, second)
    assert second.stages[0].startswith("stage 1")
    assert second.tables == [3, 4], "each table once"
    again = Interrupting("")
    with Run.resume(folder) as run:
        train(TINY, run, again)
    assert (again.stages, again.tables) == ([], [4]), "a run that has ended only shows its table"
    finished = Run.open(folder)
    assert [report.name for report in finished.results.reports()] == ["base", "+ RFT", "+ stage 1 RL", "+ stage 2 RL"]
    assert [report.budget["turns"] for report in finished.results.reports()] == [20, 4, 4, 20], (
        "policies between are measured as they were trained"
    )
    assert [(m["phase"], m["iteration"]) for m in finished.results.metrics()] == [
        ("rft", 0),
        ("stage1", 0),
        ("stage2", 0),
        ("stage2", 1),
    ], "two of four iterations that solved nothing are a plateau"
    assert {path.name for path in finished.checkpoints.all()} == {"base", "rft-0", "stage1-0", "stage2-1"}
    stepped = {name for path in finished.checkpoints.all() for name in load_file(path / "optimiser.safetensors")}
    assert any("mlp" in name for name in stepped)
    assert not any("embed_tokens" in name for name in stepped), "what is frozen has no optimiser once there is a base"

    assert all(m["probe_logprob_diff"] < 1e-4 for m in finished.results.metrics()), (
        "the sampler is probed in its own precision, also where imitation rounds"
    )
    assert [m["iteration"] for m in finished.results.metrics() if "held_out_pass_at_1" in m] == [1], "every second iteration of RL"
    assert all(len(m["steps"]) == m["updates"] for m in finished.results.metrics() if m["episodes"])
    for m in finished.results.metrics():
        turns = finished.trained.read(m["phase"], m["iteration"])
        assert sum(int((~np.isnan(one.advantages)).sum()) for one in turns) == m["trained"], "each token of each update is kept"
        known = [not np.isnan(one.old[~np.isnan(one.advantages)]).any() for one in turns]
        assert set(known) <= {"ratio" in m}, "what has no ratio in the record has none in the table"
    recorded = {name for m in finished.results.metrics() for name in m} | {*TOLD, *EARLIER}
    drawn = {column for _, _, wanted in CHARTS for _, column, _ in wanted}
    assert drawn <= recorded, "what the page draws is recorded under that name"
    steps = {path.name: int(load_file(path / "optimiser.safetensors")["steps"]) for path in finished.checkpoints.all()}
    made = Counter[str]()
    for m in finished.results.metrics():
        made[m["phase"]] += m["updates"]
    assert {
        name.partition("-")[0]: n for name, n in steps.items() if name != "base"
    } == made  # every phase begins with an optimiser that has seen nothing

    cut = shutil.copytree(folder / "checkpoints" / "rft-0", tmp_path / "model") / "generation_config.json"
    cut.write_text(json.dumps(json.loads(cut.read_text()) | {"top_k": 5}))
    model = replace(TINY, policy=replace(TINY.policy, model=str(cut.parent)), stages=TINY.stages[:1])
    last = replace(model, evaluation=replace(model.evaluation, after="last"), optimiser=replace(model.optimiser, rank=4))
    third = Interrupting("stage 1")
    with pytest.raises(KeyboardInterrupt), Run.create(tmp_path / "from-model", dumps(last)) as run:
        train(last, run, third)
    assert third.stages[0] == "rejection fine-tuning", "the base is the model, and only the last policy is measured"
    with Run.resume(tmp_path / "from-model") as run:
        train(last, run, Interrupting(""))
    adapters = [load_file(path / "adapter" / "adapter_model.safetensors") for path in Run.open(tmp_path / "from-model").checkpoints.all()]
    assert all(tensor.shape[0 if "lora_A" in name else 1] == 4 for kept in adapters for name, tensor in kept.items())
    assert (tmp_path / "from-model" / "policy" / "model.safetensors").is_file(), "the last policy is whole"
    assert not list((tmp_path / "from-model" / "checkpoints").glob("*/model.safetensors"))
    assert [report.name for report in Run.open(tmp_path / "from-model").results.reports()] == ["+ stage 1 RL"]
    assert {path.name for path in Run.open(tmp_path / "from-model").checkpoints.all()} == {"base", "rft-0", "stage1-0"}
    assert all(row["sampling_z"] > -4 for row in Run.open(tmp_path / "from-model").results.metrics()), (
        "the policy takes nothing from that file"
    )

    monkeypatch.setattr(learners, "EmbeddedPolicy", Inheriting)
    monkeypatch.setattr(Inheriting, "forged", inherited(cut))
    reason = "sampling_z is -.*not drawn from the policy's own softmax; a generation_config that cuts it may have been inherited"
    with pytest.raises(TrainingStopped, match=reason), Run.create(tmp_path / "forged", dumps(model)) as run:
        train(model, run, Silent())
    stopped = Run.open(tmp_path / "forged")
    assert [report.name for report in stopped.results.reports()] == ["base"], "what was committed stands"
    assert stopped.results.metrics() == [], "and nothing was learned from such samples"


@needs_bubblewrap
@pytest.mark.parametrize("worse", [False, True])
def test_a_stage_hands_on_its_last_policy_or_the_one_before_where_that_is_shown_to_be_better(
    worse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(TINY, tasks=replace(TINY.tasks, train=8), stages=TINY.stages[:1], validation=Validation(tasks=2))
    monkeypatch.setattr(choice, "shown_worse", lambda found: worse)
    with pytest.raises(KeyboardInterrupt), Run.create(tmp_path / "run", dumps(recipe)) as run:
        train(recipe, run, Interrupting("evaluate + stage 1"))
    with Run.resume(tmp_path / "run") as run:
        train(recipe, run, Silent())
    finished, chosen = Run.open(tmp_path / "run"), "rft-0" if worse else "stage1-0"
    assert finished.state()["checkpoint"] == chosen
    assert {path.name for path in finished.checkpoints.all()} == {"base", "rft-0", chosen}
    report = finished.results.reports()[-1]
    assert report.about["choice"].startswith(f"stage 1 hands on {chosen}: ")
    assert details(report)[1] == report.about["choice"]
    apart = {row["task"] for row in finished.rollouts.rows("stage1")} | {row["task"] for row in finished.rollouts.rows("rft")}
    told = run_tasks(recipe, tmp_path / "archives").validation
    assert len(told) == 2
    assert not apart & {task.id for task in told}


@needs_bubblewrap
def test_with_too_few_tasks_to_choose_a_policy_by_the_last_one_is_handed_on(tmp_path: Path) -> None:
    recipe = replace(TINY, tasks=replace(TINY.tasks, train=3), stages=TINY.stages[:1], validation=Validation(tasks=60))
    recipe = replace(recipe, warmup=replace(recipe.warmup, until=0.5, passes=3))
    with Run.create(tmp_path / "run", dumps(recipe)) as run:
        train(recipe, run, Silent())
    finished = Run.open(tmp_path / "run")
    assert finished.state()["checkpoint"] == "stage1-0"
    assert finished.results.reports()[-1].about["choice"] == "stage 1 hands on stage1-0: there are too few tasks to choose a policy by."


@needs_bubblewrap
def test_only_lessons_that_tell_how_often_they_succeed_are_judged(tmp_path: Path) -> None:
    recipe = replace(TINY, warmup=replace(TINY.warmup, demonstrator=replace(TESTING, skill=1.0)))
    judged, unjudged = (taught(recipe, Lesson("some", 4, 6, graded=graded), tmp_path / str(graded)) for graded in (True, False))
    assert all(rollout.solved for rollout in judged)
    assert not any(rollout.solved for rollout in unjudged)
    assert [r.trajectory.submission for r in judged] == [r.trajectory.submission for r in unjudged]


@needs_bubblewrap
def test_where_the_last_turn_is_announced_demonstrations_show_what_to_do_in_it(tmp_path: Path) -> None:
    never = replace(TESTING, skill=0.0, retries_when_red=1.0, persistent=1.0)
    recipe = replace(TINY, agent=replace(TINY.agent, announced=1), warmup=replace(TINY.warmup, demonstrator=never))
    episodes = taught(recipe, Lesson("some", 12, 7), tmp_path)
    assert all(len(one.trajectory.turns) <= 7 for one in episodes)
    assert len({len(one.trajectory.turns) for one in episodes}) > 2, "the turn that is the last differs"
    assert {one.trajectory.stop for one in episodes} == {"submitted"}
    drills = taught(recipe, Lesson("some", 4, 5, practice="edits"), tmp_path / "drills")
    assert {(one.trajectory.stop, len(one.trajectory.turns)) for one in drills} == {("submitted", 5)}, "practice ends so too"


TESTING = DemonstratorOptions(tests=1.0, resigns=0.0, slips=0.0, misquotes=0.0, malformed=0.0)


def taught(recipe: Recipe, lesson: Lesson, folder: Path) -> list[Rollout]:
    """The episodes of a lesson on four tasks."""
    found = tuple(synthetic_tasks(4, 0, False, folder / "archives"))

    async def shown() -> list[Rollout]:
        boxes = sandboxes(recipe.sandbox)
        with Run.create(folder / "run", "") as run:
            try:
                around = harness(recipe.agent, recipe.sandbox, Grader(boxes), NullJournal(), lambda _: None)
                context = RunContext(recipe, RunTasks(found, found, (found,)), run, Silent(), around)
                return await demonstrate(context, ChatTokenizer.train([], 300), lesson)
            finally:
                await boxes.close()

    return asyncio.run(shown())


@needs_bubblewrap
def test_what_a_demonstration_helped_to_collect_is_imitated_without_it(tmp_path: Path) -> None:
    rft = replace(TINY.rft, demonstration=True, limits=AttemptLimits(turns=4, context=12_000))
    full = replace(TINY, agent=AgentChoice("full"), policy=replace(TINY.policy, context=12_000), rft=rft, stages=())
    with Run.create(tmp_path / "run", dumps(full)) as run:
        train(full, run, Silent())
    finished = Run.open(tmp_path / "run")
    (row,) = finished.results.metrics()
    assert row["episodes"] == 4
    shown, plain = (finished.rollouts.read(phase)[0].trajectory.turns[0].context for phase in ("rft", "evaluate-2"))
    assert len(shown) > 1.3 * len(plain), "the demonstration is in the one prompt and not in the other"
    trained = finished.trained.read("rft", 0)
    assert sum(int((~np.isnan(one.logprobs)).sum()) for one in trained) == row["trained"]
    assert all(np.isnan(one.old).all() for one in trained), "what was said after the one prompt is no measure after the other"


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_prints_and_reads_back_as_itself(name: str) -> None:
    assert loads(Recipe, dumps(RECIPES[name]())) == RECIPES[name]()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: StageSampling(attempts=1), "at least 2 attempts"),
        (lambda: Stage(loss=LossChoice(clip_low=0.4, clip_high=0.3)), "clip_low"),
        (lambda: Stage(limits=AttemptLimits(turns=6), reward=LengthPenalty(6)), "length_threshold"),
        (lambda: Recipe("x", stages=(Stage(limits=AttemptLimits(context=9999)),)), "beyond policy.context"),
        (lambda: TaskSource(source=Component("set")), "task set"),
        (lambda: TaskSource(planted=("no_such",)), "tasks.planted"),
        (lambda: Mix(synthetic=1.0), "below 1"),
        (lambda: TaskSource(train=0), "at least 1"),
    ],
)
def test_a_value_that_cannot_work_is_refused_before_anything_starts(wrong: object, sentence: str) -> None:
    assert callable(wrong)
    with pytest.raises(ConfigError, match=sentence):
        wrong()


def test_a_backend_that_does_not_enforce_what_the_recipe_requires_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    weak = Capabilities("bwrap", network=False, processes=True, memory=True, disk=False, pid_namespace=True, fork=True)
    monkeypatch.setattr(BwrapSandboxes, "probe", lambda _: weak)
    with pytest.raises(ConfigError, match=r"requires network, disk of its sandboxes, which bwrap does not enforce"):
        sandboxes(TINY.sandbox)
    sandboxes(SandboxChoice(requires=("processes", "fork")))
    with pytest.raises(ConfigError, match="gravity is nothing that can be required"):
        SandboxChoice(requires=("gravity",))


def test_an_evaluation_between_iterations_has_the_limits_of_its_stage() -> None:
    first, last = TINY.stages
    stages = (replace(first, limits=AttemptLimits(turns=4)), replace(last, limits=AttemptLimits(turns=6)))
    recipe = replace(TINY, stages=stages, evaluation=replace(TINY.evaluation, every=2, limits=AttemptLimits(turns=9)))
    choices = [between(recipe, PhaseId("reinforce", number, 1), stage) for number, stage in enumerate(stages, 1)]
    assert [choice.limits.turns for choice in choices if choice] == [4, 9], (
        "those of the stage that trains, and of the last policy the evaluation's"
    )
    assert between(recipe, PhaseId("reinforce", 1, 0), stages[0]) is None, "every second iteration"


def test_a_phase_goes_by_a_name_that_is_rendered_and_never_parsed() -> None:
    names = [str(phase.id) for phase in phases(TINY)]
    assert names == [
        "evaluate-base",
        "rft-0",
        "evaluate-rft",
        "stage1-0",
        "evaluate-stage1",
        *(f"stage2-{n}" for n in range(TINY.stages[1].iterations)),
        "evaluate-stage2",
    ]
    assert len({phase.id for phase in phases(TINY)}) == len(names)
