"""Rejection fine-tuning: collect attempts, keep those that were solved, imitate them (arXiv 2508.03501, section 4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from patchgrad.contracts import Extend, Program, TrainablePolicy
from patchgrad.errors import ConfigError
from patchgrad.learning.algorithm import IterationSizes
from patchgrad.recipes.rft import Rft
from patchgrad.rollouts.attempts import AttemptSettings
from patchgrad.runs.algorithms import imitation
from patchgrad.runs.build import harness as harnesses
from patchgrad.runs.iteration import Work, run_iteration
from patchgrad.runs.phase_id import PhaseId
from patchgrad.runs.session import RunContext, Session
from patchgrad.trainers.schedules import Schedule, constant, cosine
from patchgrad.values import Ids, Task


async def imitate(context: RunContext, session: Session, id: PhaseId) -> Session:
    """One round."""
    recipe, rft = context.recipe, context.recipe.rft
    sizes = IterationSizes(
        rft.tasks,
        rft.attempts,
        rft.batch,
        recipe.optimiser.micro_batch_tokens,
        _schedule(rft),
        recipe.workers,
        rft.epochs,
        recipe.optimiser.imitation,
    )
    settings = AttemptSettings(recipe.agent.budget(rft.limits), harnesses.reward(recipe.reward, context.registry), recipe.seed)
    session.learner.trainer.reset_optimiser()
    context.begin("rejection fine-tuning", rft.tasks * rft.attempts)
    row, harness = imitation(rft), context.harness
    if rft.demonstration and not id.iteration:  # it is for the base model, which never saw the protocol
        row = imitation(rft, _first_prompt(context, session.learner.policy))
        harness = replace(harness, agent=harnesses.agent(recipe.agent, context.registry, demonstration=True))
    return await run_iteration(context, session, Work(id, row, sizes, settings, harness, context.agent == harness.agent))


def _first_prompt(context: RunContext, policy: TrainablePolicy) -> Callable[[Task], Ids]:
    """The first prompt of an attempt, as RL and evaluations give it."""

    def first(task: Task) -> Ids:
        said = None if isinstance(context.agent, Program) else context.agent.prompt(task.instruction, ())
        if not isinstance(said, Extend):
            raise ConfigError("rft.demonstration needs an agent whose attempts begin with a prompt; set it to false")
        return policy.encode(said.messages, None)

    return first


def _schedule(rft: Rft) -> Callable[[int], Schedule]:
    """The learning rate of a round of so many steps."""

    def schedule(steps: int) -> Schedule:
        warmup = min(rft.warmup, steps // 5)
        return cosine(rft.lr, steps, warmup) if rft.schedule == "cosine" else constant(rft.lr, warmup)

    return schedule
