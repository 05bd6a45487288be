"""The phases of a run in order: base policy, rejection fine-tuning, stages of RL, an evaluation after each.

After each phase weights, optimiser, curriculum and position are committed together, so that a run that was interrupted goes on after its
last whole phase. The pipeline orders, commits and resumes; what is done in a phase stands in `phases/`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from patchgrad.errors import NothingLearned
from patchgrad.learning.ahead import Ahead
from patchgrad.learning.curricula import Prefixes
from patchgrad.learning.replay import Buffer
from patchgrad.networks import folder
from patchgrad.recipes.recipe import Recipe
from patchgrad.recipes.stage import Stage
from patchgrad.runs.build import learner as learners
from patchgrad.runs.build.curriculum import curriculum
from patchgrad.runs.guards import fruitless
from patchgrad.runs.phase_id import PhaseId, phase_ids
from patchgrad.runs.phases.base_policy import base
from patchgrad.runs.phases.choice import choose
from patchgrad.runs.phases.evaluation import evaluate
from patchgrad.runs.phases.imitation import imitate
from patchgrad.runs.phases.reinforce import over, reinforce
from patchgrad.runs.session import RunContext, Session
from patchgrad.values import Evaluated
from patchgrad.waiting import waiting_for


def _never(context: RunContext, session: Session) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Phase:
    """One unit of work that is done wholly or not at all; one that is `needless` when its turn comes is left out."""

    id: PhaseId
    act: Callable[[RunContext, Session], Awaitable[Session]]
    needless: Callable[[RunContext, Session], bool] = _never


def phases(recipe: Recipe) -> list[Phase]:
    """What is done in each phase after the base."""
    ids = phase_ids(recipe)[1:]
    seldom = recipe.evaluation.after == "last"  # then the others still say which checkpoints are kept
    return [Phase(id, _unchanged) if seldom and id.evaluates and id != ids[-1] else _phase(recipe, id) for id in ids]


def _phase(recipe: Recipe, id: PhaseId) -> Phase:
    if id.kind == "imitate":
        return Phase(id, partial(imitate, id=id))
    if id.kind == "reinforce":
        stage = recipe.stages[id.stage - 1]
        return Phase(id, partial(reinforce, id=id, stage=stage), partial(_over, id=id, stage=stage) if id.iteration else _never)
    if id.kind == "choose":
        return Phase(id, partial(choose, id=id))
    if id.kind == "evaluate base":
        return Phase(id, partial(evaluate, name="base", trained=None))
    trained = recipe.stages[id.stage - 1] if id.stage else recipe.rft
    last = id.stage == len(recipe.stages)
    return Phase(id, partial(evaluate, name=id.reported, trained=None if last else trained))


def _over(context: RunContext, session: Session, id: PhaseId, stage: Stage) -> bool:
    return bool(over(context, session, id, stage))


async def _unchanged(context: RunContext, session: Session) -> Session:
    """A policy that is not measured."""
    return session


async def complete(context: RunContext) -> Session:
    """Do the phases that are not done yet; commit after each. `NothingLearned` at the end where no iteration made an update."""
    state = context.run.state()
    context.run.tasks.add((*context.tasks.train, *context.tasks.validation, *context.tasks.held_out))
    if state:
        session, done = _restored(context), int(state["position"])
    else:
        started = time.monotonic()
        session, done = _later(await base(context), started), 1
        session = _committed(context, session, 1, PhaseId("base"), "")
    before = session.reports
    try:
        for position, phase in enumerate(phases(context.recipe)[done - 1 :], done + 1):
            if phase.needless(context, session):
                continue
            started, previous = time.monotonic(), session.checkpoint
            session = _later(await phase.act(context, session), started)
            session = _committed(context, session, position, phase.id, previous)
        if context.recipe.optimiser.rank:
            _keep_whole(context, session)
    finally:
        await session.ahead.close()
        session.learner.policy.close()
    if session.reports == before:  # all of it was measured by an earlier process
        context.tracker.event(Evaluated(session.reports))
    if reason := fruitless(context.recipe.guards, context.run.results.metrics()):
        raise NothingLearned(
            f"No iteration of fine-tuning or RL made an update: {reason}. The run is whole; see the recipe's `guards.idle`."
        )
    return session


def _later(session: Session, started: float) -> Session:
    return replace(session, minutes=session.minutes + (time.monotonic() - started) / 60)


def _committed(context: RunContext, session: Session, position: int, id: PhaseId, previous: str) -> Session:
    """The policies of the table are kept: base, after RFT, and the one that each stage hands on. The checkpoint before was `previous`."""
    run = context.run
    if previous and id.evaluates:
        session = replace(session, kept=(*session.kept, previous))
    elif id.kind != "choose":
        with waiting_for("checkpoint"):
            run.checkpoints.save(str(id), session.save)
        session = replace(session, checkpoint=str(id))
    run.save_state(session.state(position, id))
    if previous and previous not in (session.checkpoint, *session.kept):
        run.checkpoints.discard(previous)
    return session


def _keep_whole(context: RunContext, session: Session) -> None:
    """The last policy as a model's folder: its checkpoint has adapters alone."""
    checkpoint, learner = context.run.checkpoints.find(session.checkpoint), session.learner

    def fill(out: Path) -> None:
        folder.save(out, folder.shape(checkpoint), learner.trainer.weights())
        learner.policy.tokenizer.save(out)

    context.run.checkpoints.save_policy(fill)


def _restored(context: RunContext) -> Session:
    """The session as it was committed last."""
    recipe, run, state = context.recipe, context.run, context.run.state()
    chosen, prefixes = curriculum(recipe, context.tasks.train, context.registry), Prefixes(run.journal.known)
    chosen.restore(state["pool"])
    prefixes.restore(state["prefixes"])
    checkpoint = run.folder / "checkpoints" / state["checkpoint"]
    adapted = recipe.optimiser.rank > 0  # adapters go back onto the model that they were made for
    source = recipe.policy.model if adapted else checkpoint
    learner = learners.learner(*learners.open_model(source, recipe, context.registry, context.cluster), chosen)
    learner.trainer.load(checkpoint)
    learner.policy.load(learner.trainer.weights(), learner.trainer.version)
    return Session(
        learner,
        chosen,
        prefixes,
        tuple(run.results.reports()),
        state["minutes"],
        state["checkpoint"],
        tuple(state["kept"]),
        state.get("choice", ""),
        Ahead.restored(state["ahead"], {task.id: task for task in context.tasks.train}) if "ahead" in state else Ahead(),
        Buffer.restored(state.get("buffer", ())),
    )
