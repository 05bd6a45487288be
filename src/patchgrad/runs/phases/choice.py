"""The policy that a stage of RL hands on: its last one, or that with which it began, where that is shown to be better."""

from __future__ import annotations

from dataclasses import replace

from patchgrad.contracts import Policy
from patchgrad.evaluation import Versus, versus
from patchgrad.evaluation.comparing import SHOWN
from patchgrad.runs.measure import assess
from patchgrad.runs.phase_id import PhaseId
from patchgrad.runs.session import RunContext, Session
from patchgrad.values import Report


async def choose(context: RunContext, session: Session, id: PhaseId) -> Session:
    """The session with the better policy of the two, by tasks that nothing was trained on.

    Both are measured on the validation tasks, as an evaluation measures. The last one is handed on, unless the first solves more of them
    and a paired sign-flip test gives that a p below 0.05, or the set is too small to have such tasks. The attempts of a policy that was
    measured so before are taken from the journal.
    """
    began, last = session.kept[-1], session.checkpoint
    if not context.tasks.validation:
        told = f"stage {id.stage} hands on {last}: there are too few tasks to choose a policy by."
        context.note(told)
        return session.with_choice(last, told)
    count = len(context.tasks.validation) * context.recipe.validation.attempts
    context.begin(f"choose a policy after stage {id.stage}", 2 * count)
    first = await _measured(context, session, began)
    second = await _measured(context, session, last)
    found = versus(first, second)
    chosen = began if shown_worse(found) else last
    if chosen == began:
        await _taken(context, session, began)
    told = f"stage {id.stage} hands on {chosen}: {found.sentence}"
    context.note(told)
    return session.with_choice(chosen, told)


def shown_worse(found: Versus) -> bool:
    """Is the second policy shown to solve less than the first?"""
    return found.comparison.difference.mean < 0 and found.comparison.p_value < SHOWN


async def _measured(context: RunContext, session: Session, checkpoint: str) -> Report:
    await _taken(context, session, checkpoint)
    return await validated(context, session.learner.policy, checkpoint)


async def validated(context: RunContext, policy: Policy, name: str) -> Report:
    """The policy on the validation tasks."""
    recipe = context.recipe
    measured = replace(recipe, evaluation=replace(recipe.evaluation, attempts=recipe.validation.attempts, k=0, best_of=""))
    return (await assess(context.harness, policy, context.tasks.validation, measured, name))[1]


async def _taken(context: RunContext, session: Session, checkpoint: str) -> None:
    """The learner goes on from this checkpoint."""
    trainer = session.learner.trainer
    trainer.load(context.run.folder / "checkpoints" / checkpoint)
    await session.learner.channel.publish(trainer.weights(), trainer.version)
