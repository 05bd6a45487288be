"""One iteration of a stage of reinforcement learning (arXiv 2508.03501, section 4.3)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Literal

from patchgrad.contracts import Score
from patchgrad.learning.algorithm import IterationSizes
from patchgrad.learning.branching import Forking
from patchgrad.learning.replay import Priorities, Recalled
from patchgrad.recipes.stage import Stage
from patchgrad.rollouts.attempts import NEUTRAL, AttemptSettings, from_the_beginning, grouped
from patchgrad.runs.algorithms import algorithm, with_length_penalty
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.build import learner as learners
from patchgrad.runs.iteration import Work, run_iteration
from patchgrad.runs.phase_id import PhaseId
from patchgrad.runs.phases.evaluation import on_a_sample
from patchgrad.runs.phases.health import ailing
from patchgrad.runs.session import RunContext, Session
from patchgrad.trainers.schedules import constant


async def reinforce(context: RunContext, session: Session, id: PhaseId, stage: Stage) -> Session:
    """One iteration; with the first one the stage begins."""
    sampling, seed = stage.sampling, context.recipe.seed
    if id.iteration == 0:
        session.learner.trainer.reset_optimiser()
        await session.ahead.close()
        session.buffer.clear()
        session = _begun(context, session, stage)
    attempts = sampling.attempts + sampling.forks * sampling.continuations
    context.begin(f"stage {id.stage}, iteration {id.iteration + 1} of {stage.iterations}", sampling.tasks * attempts)
    reward = with_length_penalty(harnesses.reward(context.recipe.reward, context.registry), stage.reward, stage.limits.turns)
    drawn = NEUTRAL if sampling.top_p == 1 else replace(NEUTRAL, top_p=sampling.top_p, purpose="study")
    settings = AttemptSettings(context.recipe.agent.budget(stage.limits), reward, seed, drawn)
    measured = partial(on_a_sample, id=id, stage=stage)
    last = min(id.iteration + sampling.lag, stage.iterations - 1)
    later = tuple(replace(id, iteration=number) for number in range(id.iteration + 1, last + 1))
    again = priorities(stage, id.iteration) if stage.replay.groups else None
    async with _reference(context, session, stage) as reference:
        row = algorithm(stage, reference, context.registry)
        work = Work(id, row, _sizes(context, session, id, stage, again), settings, context.harness, later=later, again=again)
        session = await run_iteration(context, session, work, measured)
    done = id.iteration + 1
    if done < stage.iterations and (reason := over(context, session, replace(id, iteration=done), stage)):
        await session.ahead.close()
        context.note(f"stage {id.stage} ends: {reason}")
    return session


def over(context: RunContext, session: Session, id: PhaseId, stage: Stage) -> str:
    """Why a stage ends before this iteration, or nothing: it learns no more, or its attempts are no longer what they have to be."""
    if stage.plateau and session.curriculum.plateaued(stage.plateau):
        return f"Pass@1 has not risen over the last {stage.plateau} iterations"
    rows = context.run.results.metrics()  # a run that was killed may have written one of this iteration, too
    return ailing(stage.health, (row for row in rows if row["phase"] == id.trained and row["iteration"] < id.iteration))


def _begun(context: RunContext, session: Session, stage: Stage) -> Session:
    """The session with the curriculum that the stage draws from."""
    curriculum, told = session.curriculum.begin_stage(stage.start.refresh_before, stage.start.pool)
    if told:
        context.note(told)
    return replace(session, curriculum=curriculum, learner=replace(session.learner, curriculum=curriculum))


def _sizes(context: RunContext, session: Session, id: PhaseId, stage: Stage, again: Priorities | None) -> IterationSizes:
    sampling, limits = stage.sampling, stage.limits
    prefixed = partial(session.prefixes.start, turns=limits.turns, context=limits.context)
    rate = constant(stage.rate(id.iteration))
    return IterationSizes(
        sampling.tasks,
        sampling.attempts,
        stage.loss.minibatch,
        context.recipe.optimiser.micro_batch_tokens,
        lambda steps: rate,
        context.recipe.workers,
        stage.loss.epochs,
        start=prefixed if stage.start.at == "prefixes" else from_the_beginning,
        forking=_forking(stage) if sampling.forks else None,
        lag=sampling.lag,
        spot=context.recipe.guards.spot,
        recalled=_recalled(context, session, id, again) if again else (),
        least_ess=stage.replay.ess,
    )


def priorities(stage: Stage, iteration: int) -> Priorities:
    """How an iteration of the stage draws from the buffer; `beta` rises in a line to 1 at the last."""
    replay, done = stage.replay, iteration / max(1, stage.iterations - 1)
    return Priorities(replay.groups, replay.age, replay.uses, replay.alpha, replay.beta + (1 - replay.beta) * done)


def _recalled(context: RunContext, session: Session, id: PhaseId, again: Priorities) -> list[Recalled]:
    """The groups of earlier iterations that are trained again, as the run's tables have them."""
    drawn = session.buffer.draw(id.iteration, again, context.recipe.seed)
    read = partial(context.run.rollouts.read, id.trained)
    there = {number: grouped(read(number)) for number in {kept.iteration for kept, _ in drawn}}
    return [Recalled(kept, weight, there[kept.iteration][kept.group]) for kept, weight in drawn]


def _forking(stage: Stage) -> Forking:
    on: Literal["outcome", "reward"] = "reward" if stage.row.filter_on == "reward" else "outcome"
    return Forking(stage.sampling.forks, stage.sampling.continuations, on)


def _reference(context: RunContext, session: Session, stage: Stage) -> AbstractAsyncContextManager[Score | None]:
    """The policy that RL began with, where the stage's KL penalty pulls to it; its checkpoint is one of the table's."""
    penalty, rounds = stage.loss.kl_penalty, context.recipe.rft.rounds
    if not penalty.weight or penalty.to != "reference":
        return nullcontext()
    began = PhaseId("imitate", 0, rounds - 1) if rounds else PhaseId("base")
    return learners.reference(context.run.folder / "checkpoints" / str(began), context.recipe, session.learner.trainer)
