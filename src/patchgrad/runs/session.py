"""The state of a run between its phases, and what stands around them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from patchgrad.contracts import Agent, Program, StagedCurriculum, Tracker
from patchgrad.learning.ahead import Ahead
from patchgrad.learning.curricula import Prefixes
from patchgrad.learning.loop import Learner
from patchgrad.learning.replay import Buffer
from patchgrad.recipes.recipe import Recipe
from patchgrad.rollouts.harness import Harness
from patchgrad.runs.components.registry import BY_NAME, Registry
from patchgrad.runs.phase_id import PhaseId
from patchgrad.store import Run
from patchgrad.values import Advanced, Call, Note, PhaseBegan, Report, Rollout, Task


@dataclass(frozen=True, slots=True)
class RunTasks:
    """The tasks of a run: to train on, to measure with, to choose policies by, and, by kinds, for a scripted policy to show how to work on.

    Those for `validation` are like those to `train` on, and no attempt is trained on.
    """

    train: tuple[Task, ...]
    held_out: tuple[Task, ...]
    shown: tuple[tuple[Task, ...], ...] = ()
    validation: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class RunContext:
    """What no phase changes: the recipe, its tasks, the run's folder, who is told, what attempts are made with, the user's parts,
    and the cluster, if there is one."""

    recipe: Recipe
    tasks: RunTasks
    run: Run
    tracker: Tracker
    harness: Harness
    registry: Registry = BY_NAME
    cluster: str = ""

    @property
    def agent(self) -> Agent | Program:
        return self.harness.agent

    def begin(self, name: str, total: int) -> None:
        """Tell that a part of so many steps begins."""
        self.tracker.event(PhaseBegan(name, total))

    def note(self, text: str) -> None:
        """Tell one line that stays."""
        self.tracker.event(Note(text, stays=True))


@dataclass(frozen=True, slots=True)
class Session:
    """What a phase takes and gives back: who learns, where attempts begin, and what was found so far.

    `minutes` is the time that all phases before took. `checkpoint` is the last one's, and `kept` are those of the policies that were
    measured. `choice` says which policy the last stage handed on, and why. `ahead` are iterations whose attempts were begun,
    and `buffer` has the groups of earlier ones that may be trained again.
    """

    learner: Learner
    curriculum: StagedCurriculum
    prefixes: Prefixes
    reports: tuple[Report, ...] = ()
    minutes: float = 0.0
    checkpoint: str = ""
    kept: tuple[str, ...] = ()
    choice: str = ""
    ahead: Ahead = field(default_factory=Ahead)
    buffer: Buffer = field(default_factory=Buffer)

    def with_choice(self, checkpoint: str, why: str) -> Session:
        """The same at a checkpoint that was chosen."""
        return replace(self, checkpoint=checkpoint, choice=why)

    def save(self, folder: Path) -> None:
        """A checkpoint that transformers opens, and from which training goes on."""
        self.learner.trainer.save(folder)
        self.learner.policy.tokenizer.save(folder)

    def state(self, position: int, phase: PhaseId) -> dict[str, Any]:
        """What the run's folder keeps of it beside the checkpoint."""
        return {
            "position": position,
            "step": str(phase),
            "checkpoint": self.checkpoint,
            "kept": list(self.kept),
            "choice": self.choice,
            "pool": self.curriculum.state(),
            "prefixes": self.prefixes.state(),
            "minutes": self.minutes,
            "ahead": self.ahead.state(),
            "buffer": self.buffer.state(),
        }


def told(tracker: Tracker, rollout: Rollout, *, graded: bool = True) -> None:
    """Tell that an attempt is done."""
    facts: dict[str, bool | float | str] = {"solved": rollout.solved} if graded else {}
    tracker.event(Advanced(1, {**facts, "turns": float(len(rollout.trajectory.turns))}))
    tracker.event(Note(sentence(rollout)))


def sentence(rollout: Rollout) -> str:
    """One line about an attempt: `clamp in shop/core.py: replace "value < low" ... -> solved in 4 turns`."""
    calls = [turn.call for turn in rollout.trajectory.turns]
    edits = [call.arguments for call in calls if isinstance(call, Call) and call.tool == "replace"]
    last = f"replace {edits[-1]}" if edits else "no edit"
    ending = "solved" if rollout.solved else rollout.trajectory.stop
    return f"{rollout.task.id}: {last[:60]} -> {ending} in {len(rollout.trajectory.turns)} turns"
