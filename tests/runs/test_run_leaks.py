"""What a run with a set trained on, as text: nothing of a held-out task stands in any attempt or context that taught."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath

from tests.runs.test_pipeline import TINY, needs_bubblewrap

from patchgrad.config import dumps
from patchgrad.policies.tokenizers.chat import ChatTokenizer
from patchgrad.recipes.component import Component
from patchgrad.recipes.recipe import Mix, TaskSource
from patchgrad.runs.api import train
from patchgrad.runs.demonstrations.known_bugs import wrong_lines
from patchgrad.runs.tasks import run_tasks
from patchgrad.runs.trackers.terminal import Silent
from patchgrad.store import Run
from patchgrad.tasks.sets import Member, save
from patchgrad.tasks.synthetic import synthetic_tasks
from patchgrad.values import Task

LEARNED = ("demonstrations", "rft", "stage1")


def a_set(folder: Path) -> Path:
    """Six packages to train on and three that are held out, a task in each."""
    members = []
    for held_out, count, split in ((False, 6, "train"), (True, 3, "held_out")):
        for task in synthetic_tasks(count, 5, held_out, folder / "archives", (1,), ("op_swap", "cmp_negate")):
            tagged = replace(task, tags={**task.tags, "split": split, "package": PurePath(task.tags["file"]).stem})
            members.append(Member(tagged, {"report": task.instruction}, "", ""))
    save(folder, members)
    return folder


def texts(run: Run, tokenizer: ChatTokenizer) -> Iterator[tuple[str, str]]:
    """Whatever an attempt of learning was told, said and saw, with its name: as text, and as the tokens that were trained after."""
    for row in run.rollouts.rows(columns=["phase", "iteration"]):
        assert row["phase"] in LEARNED or row["phase"].startswith("evaluate")
    for phase in LEARNED:
        for rollout in run.rollouts.read(phase, 0):
            name = rollout.trajectory.id
            yield name, rollout.task.instruction
            for turn in rollout.trajectory.turns:
                yield name, turn.observation.content
                yield name, tokenizer.decode([*turn.context.tolist(), *turn.action.token_ids.tolist()])


def marks(tasks: tuple[Task, ...]) -> set[str]:
    """What tells of these tasks: their packages, their statements, and their wrong lines without indentation."""
    symptoms = {task.instruction.partition("\n")[0] for task in tasks}
    return symptoms | {task.tags["package"] for task in tasks if "package" in task.tags} | wrong_lines(tasks)


@needs_bubblewrap
def test_nothing_of_a_held_out_task_stands_in_what_a_run_learned_from(tmp_path: Path) -> None:
    source = TaskSource(
        Component("set"), train=8, held_out=3, held_out_generated=1, folder=str(a_set(tmp_path / "set")), mix=Mix(synthetic=0.4)
    )
    recipe = replace(TINY, tasks=source, stages=TINY.stages[:1], evaluation=replace(TINY.evaluation, after="last", every=0))
    with Run.create(tmp_path / "run", dumps(recipe)) as run:
        train(recipe, run, Silent())
    done, made = Run.open(tmp_path / "run"), run_tasks(recipe, tmp_path / "archives")
    assert len(made.held_out) == 4
    tokenizer = ChatTokenizer.load(tmp_path / "run" / "checkpoints" / "stage1-0")
    told = list(texts(done, tokenizer))
    names = {phase: {rollout.task.id for rollout in done.rollouts.read(phase, 0)} for phase in LEARNED}
    assert all(names.values())
    held_out = {task.id for task in made.held_out}
    assert not any(name.partition(":drill")[0] in held_out for phase in LEARNED for name in names[phase])
    found = {(mark, name) for mark in marks(made.held_out) for name, text in told if mark in text}
    assert not found
    shown = marks(tuple(task for task in made.train if task.id in names["demonstrations"]))
    assert all(any(mark in text for _, text in told) for mark in shown), "what was shown is found in this way"
